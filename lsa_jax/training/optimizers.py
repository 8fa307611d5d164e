"""Optax optimisers and learning-rate schedules by name, with durations in epochs."""

from collections.abc import Callable

import optax
from jaxtyping import ArrayLike, Float

from lsa_jax.errors import InputError

SCHEDULES = ("constant", "cosine", "steps")
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw")


def make_schedule(
    name: str,
    learning_rate: Float[ArrayLike, ""],
    *,
    epochs: int,
    steps_per_epoch: int,
    decay_epochs: tuple[float, ...] = (),
    decay_factor: float = 0.2,
) -> Callable:
    """Returns the learning rate as a function of the step.

    Args:
        name: "constant"; "cosine" (to zero at the end of training); or "steps" (multiplied by
            `decay_factor` at each of `decay_epochs`).
        learning_rate: rate at the start; may be a traced value, so that it can vary over replicas.
        epochs: length of the training.
        steps_per_epoch: steps in an epoch.
        decay_epochs: when the rate falls, in epochs; for "steps" only.
        decay_factor: by how much it falls; for "steps" only.

    Raises:
        InputError: the name is not one of these.
    """
    if name == "constant":
        return optax.constant_schedule(learning_rate)
    if name == "cosine":
        return optax.cosine_decay_schedule(learning_rate, epochs * steps_per_epoch)
    if name == "steps":
        falls = {int(epoch * steps_per_epoch): decay_factor for epoch in decay_epochs}
        factor = optax.piecewise_constant_schedule(1.0, falls)
        return lambda step: learning_rate * factor(step)
    raise InputError(f"schedule is {name!r}; accepted: {', '.join(SCHEDULES)}")


def make_optimizer(
    name: str,
    learning_rate: Float[ArrayLike, ""] | Callable,
    *,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
) -> optax.GradientTransformation:
    """Returns an optimiser.

    Args:
        name: "sgd", "momentum" (heavy ball), "adam" or "adamw".
        learning_rate: a number or a schedule.
        momentum: mass of "momentum".
        weight_decay: lambda of the penalty lambda/2 |theta|^2 on all parameters, whose gradient is
            added to the loss's ("sgd", "momentum", "adam"); for "adamw" the decoupled decay.

    Raises:
        InputError: the name is not one of these.
    """
    if name == "adamw":
        return optax.adamw(learning_rate, weight_decay=weight_decay)
    if name == "adam":
        optimizer = optax.adam(learning_rate)
    elif name == "momentum":
        optimizer = optax.sgd(learning_rate, momentum=momentum)
    elif name == "sgd":
        optimizer = optax.sgd(learning_rate)
    else:
        raise InputError(f"optimizer is {name!r}; accepted: {', '.join(OPTIMIZERS)}")
    if not weight_decay:
        return optimizer
    return optax.chain(optax.add_decayed_weights(weight_decay), optimizer)
