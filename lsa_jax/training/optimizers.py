"""Optax optimisers and learning-rate schedules by name, with durations in epochs."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import ArrayLike, Float

from lsa_jax.arrays import real_array
from lsa_jax.checks import integer, number, one_of, require, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.training.losses import floats

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
    warmup_epochs: float = 0.0,
) -> Callable:
    """Returns the learning rate as a function of the step.

    Args:
        name: "constant"; "cosine" (to zero at the end of training); or "steps" (multiplied by
            `decay_factor` at each of `decay_epochs`).
        learning_rate: rate at the start; may be traced, so that it can vary over replicas.
        epochs: length of the training.
        steps_per_epoch: steps in an epoch.
        decay_epochs: times at which the rate falls, in epochs; for "steps" only.
        decay_factor: factor of each fall; for "steps" only.
        warmup_epochs: length of a linear warm-up from 0 to 1, a factor on the schedule (Goyal et
            al., 2017, section 2.2), so that a large rate does not overshoot at the start.

    Raises:
        InputError: the name is not one of these, or a duration is not accepted.
    """
    require("schedule", name, one_of(*SCHEDULES))
    learning_rate = _rate(learning_rate)
    require("epochs", epochs, integer(1))
    require("steps_per_epoch", steps_per_epoch, integer(1))
    require("warmup_epochs", warmup_epochs, number(0))
    if name == "constant":
        rate = optax.constant_schedule(learning_rate)
    elif name == "cosine":
        rate = optax.cosine_decay_schedule(learning_rate, epochs * steps_per_epoch)
    else:
        factor = _falls(decay_epochs, decay_factor, steps_per_epoch)
        rate = lambda step: learning_rate * factor(step)  # noqa: E731
    if not warmup_epochs:
        return rate
    ramp = optax.linear_schedule(0.0, 1.0, max(1, round(warmup_epochs * steps_per_epoch)))
    return lambda step: ramp(step + 1) * rate(step)


def _falls(decay_epochs: Any, decay_factor: float, steps_per_epoch: int) -> Callable:
    """Returns the factor on the rate of "steps" by the step."""
    decay_epochs = tuple(decay_epochs) if isinstance(decay_epochs, list) else decay_epochs
    require("decay_epochs", decay_epochs, tuple_of(number(0)))
    require("decay_factor", decay_factor, number(0))
    falls: dict[int, float] = {}
    for epoch in decay_epochs:
        step = round(epoch * steps_per_epoch)
        falls[step] = falls.get(step, 1.0) * decay_factor
    return optax.piecewise_constant_schedule(1.0, falls)


def make_optimizer(
    name: str,
    learning_rate: Float[ArrayLike, ""] | Callable,
    *,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    rate_factors: Any = None,
) -> optax.GradientTransformation:
    """Returns an optimiser.

    Args:
        name: "sgd", "momentum" (heavy ball), "adam" or "adamw".
        learning_rate: a number or a schedule.
        momentum: mass of "momentum".
        weight_decay: lambda of the penalty lambda/2 |theta|^2 on all parameters, whose gradient is
            added to the loss's ("sgd", "momentum", "adam"); for "adamw" the decoupled decay.
        rate_factors: factors on the rate of each parameter, such as `Model.rate_factors` returns
            for this name; None for one rate. The weight decay is not multiplied: weights shrink by
            the same share at any width.

    Raises:
        InputError: the name is not one of these, "adam" has factors and a weight decay, or a number
            is not accepted.
    """
    require("optimizer", name, one_of(*OPTIMIZERS))
    learning_rate = _rate(learning_rate)
    require("momentum", momentum, number(0, 1))
    require("weight_decay", weight_decay, number(0))
    decay = (optax.add_decayed_weights(weight_decay),) if weight_decay else ()
    scale = () if rate_factors is None else (_scale(rate_factors),)
    if name in ("sgd", "momentum"):  # linear in the gradient, which may be scaled first
        mass = momentum if name == "momentum" else None
        return optax.chain(*scale, *decay, optax.sgd(learning_rate, mass))
    if name == "adam" and decay and scale:
        raise InputError(
            f"weight_decay is {weight_decay} where adam has a rate for each parameter; accepted: "
            "0, or adamw"
        )
    before, after = (decay, ()) if name == "adam" else ((), decay)
    rate = optax.scale_by_learning_rate(learning_rate)
    return optax.chain(*before, optax.scale_by_adam(), *scale, *after, rate)


def _scale(factors: Any) -> optax.GradientTransformation:
    def scale(updates: Any, params: Any) -> Any:
        del params
        own = factors
        if isinstance(updates, dict) and isinstance(factors, dict):  # without frozen entries
            own = {name: factor for name, factor in factors.items() if name in updates}
        return jax.tree.map(lambda update, factor: factor * update, updates, own)

    return optax.stateless(scale)


def _rate(learning_rate: Any) -> Any:
    """Returns a learning rate as a signed number; a schedule stays.

    Raises:
        InputError: no finite number from 0 up, as far as it is known, or no single number: several
            would multiply the columns of parameters.
    """
    if callable(learning_rate):
        return learning_rate
    rate = learning_rate
    if not isinstance(rate, float):
        rate = floats(real_array("learning_rate", rate, ""))
    if not isinstance(rate, jax.core.Tracer):
        require("learning_rate", float(rate), number(0))
    return rate


def descend(
    optimizer: optax.GradientTransformation,
    both: Callable[[Any], tuple[Any, Any]],
    params: Any,
    state: Any,
) -> tuple[Any, Any, Any]:
    """Takes one step of an optimiser; returns the loss before it, parameters and state after it.

    `both` returns the loss and the gradient on the step's batch, all parts of it. An update that
    takes `value`, `grad` or `value_fn` (`optax.lbfgs`, `polyak_sgd`, `contrib.reduce_on_plateau`)
    gets them too.
    """
    value, gradient = both(params)

    # Through the sum over the parts of a batch, jax would give each part a gradient of its own.
    @jax.custom_vjp
    def value_fn(params: Any) -> Any:
        return both(params)[0]

    value_fn.defvjp(both, lambda slope, factor: (jax.tree.map(lambda g: factor * g, slope),))
    given = {"value": value, "grad": gradient, "value_fn": value_fn}
    update = optax.with_extra_args_support(optimizer).update
    updates, state = update(gradient, state, params, **given)
    return value, optax.apply_updates(params, updates), state


def check_optimizer(optimizer: optax.GradientTransformation, params: Any) -> None:
    """Raises InputError unless `descend` can update an optimiser of such parameters."""

    def take(params: Any) -> Any:
        return descend(optimizer, lambda p: (jnp.float32(0), p), params, optimizer.init(params))

    try:
        *_, state = jax.eval_shape(take, params)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        line = str(error).partition("\n")[0]
        raise InputError(
            f"optimizer cannot be updated in training ({type(error).__name__}: {line}); accepted: "
            "optax transformations that take gradients, state and parameters, and of further "
            "arguments value, grad and value_fn alone, such as optax.adam(1e-3)"
        ) from error
    for leaf in jax.tree.leaves(state):
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            raise InputError(
                f"optimizer has a random key ({leaf.dtype}) in its state, which checkpoints cannot "
                "hold; accepted: states of numbers, such as a count of steps, by which "
                "jax.random.fold_in makes keys"
            )


class SameForAll(NamedTuple):
    """A function that returns one optimiser for any values of a replica."""

    optimizer: optax.GradientTransformation

    def __call__(self, replica: Any) -> optax.GradientTransformation:
        """Returns the optimiser."""
        return self.optimizer


def optimizers_of(given: Any, replicas: Any) -> Callable[[Any], optax.GradientTransformation]:
    """Returns a function that makes the optimiser of a replica's values.

    An optimiser is the same for all; a function that makes one is returned unchanged.

    Raises:
        InputError: neither of the two, or a function of optax that has not been called.
    """
    if hasattr(given, "update") and hasattr(given, "init"):
        return SameForAll(given)
    # optax.adam(None) would go uphill, without a rate.
    uncalled = replicas is None and getattr(given, "__module__", "").startswith("optax.")
    if uncalled or not callable(given):
        raise InputError(
            f"optimizer is {given!r:.80}; accepted: an optax transformation, such as "
            "optax.adam(1e-3), or a function that makes one of a replica's values"
        )
    return given
