"""The searches of this paper's experiments: SGD with momentum, whose rate falls once."""

from collections.abc import Callable
from typing import Any

import ml_collections
import optax
from jaxtyping import Array, ArrayLike, Float

from lsa_jax.experiments.resnet.search import Plan, Search
from lsa_jax.training.programs import PyTree


def momentum_with_decay(
    learning_rate: Float[ArrayLike, ""],
    weight_decay: Float[ArrayLike, ""],
    *,
    momentum: float,
    fall_step: int,
    fall_factor: float,
) -> optax.GradientTransformation:
    """Returns SGD with momentum, weight decay as part of the gradient, and one fall of the rate.

    v <- momentum v + g + weight_decay theta and theta <- theta - rate v, both rates may be traced.

    Args:
        learning_rate: before the fall.
        weight_decay: lambda of the penalty lambda/2 |theta|^2.
        momentum: of v.
        fall_step: steps after which the rate falls.
        fall_factor: what it is then multiplied by.
    """
    fall = optax.piecewise_constant_schedule(1.0, {fall_step: fall_factor})
    return optax.chain(
        optax.add_decayed_weights(weight_decay),
        optax.sgd(lambda step: learning_rate * fall(step), momentum=momentum),
    )


def momentum_search(
    apply: Callable[[PyTree, Any], Array],
    plan: Plan,
    config: ml_collections.ConfigDict,
    *,
    frozen: tuple[str, ...] = (),
    fetch: Callable | None = None,
) -> Search:
    """Returns the search of an experiment: SGD with momentum, whose rate falls to a tenth once.

    Args:
        apply: as in `Search`.
        plan: likewise.
        config: has `momentum`, `fall_epoch`, `num_train` and `num_test`.
        frozen: as in `Search`.
        fetch: likewise.
    """
    fall_step = config.fall_epoch * -(-config.num_train // plan.batch_size)

    def optimizer(candidate: PyTree) -> optax.GradientTransformation:
        rule = {"momentum": config.momentum, "fall_step": fall_step, "fall_factor": 0.1}
        return momentum_with_decay(**candidate, **rule)

    sizes = {"num_train": config.num_train, "num_test": config.num_test}
    return Search(apply, optimizer, plan, **sizes, frozen=frozen, fetch=fetch)
