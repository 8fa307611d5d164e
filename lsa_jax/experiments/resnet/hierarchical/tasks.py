"""Hierarchical targets, and the examples and networks of a point's configuration.

H(x) = beta F(x) + alpha G(F(x)), from a base signal F of the inputs and a composite one G of F's
outputs. The paper's F and G are lists of parities; polynomials of linear features are the smooth
targets of its theory.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped

from lsa_jax import kernels
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.resnet.hierarchical.settings import num_outputs
from lsa_jax.experiments.resnet.shallow import last_features, shallow
from lsa_jax.models.model import Model
from lsa_jax.sweep.fields import Config

# Streams of a seed's key, and of the target's.
_TARGET, _TRAIN, _TEST, _INIT, _ORDER, _PROBE = range(6)
_BASE, _COMPOSITE = range(2)


class Hierarchy(NamedTuple):
    """A target in two stages."""

    base: Callable[[Array], Array]  # F, from inputs [n, d] to [n, k]
    composite: Callable[[Array], Array]  # G, from F's outputs [n, k] to [n, k]
    alpha: float  # weight of the composite signal
    beta: float  # weight of the base signal


def parities(
    members: Int[np.ndarray, "k degree"], signs: Shaped[np.ndarray, " k"]
) -> Callable[[Float[Array, "n c"]], Float[Array, "n k"]]:
    """Returns z -> (s_i prod_{j in S_i} z_j) for i = 1 to k, rows S and signs s."""

    def apply(z: Float[Array, "n c"]) -> Float[Array, "n k"]:
        return jnp.prod(z[:, members], axis=-1) * jnp.asarray(signs, z.dtype)[None]

    return apply


def polynomials(
    directions: Float[Array, "k c"], degree: int
) -> Callable[[Float[Array, "n c"]], Float[Array, "n k"]]:
    """Returns z -> He_degree(<w_i, z>) / sqrt(degree!), of variance 1 for Gaussian z."""

    def apply(z: Float[Array, "n c"]) -> Float[Array, "n k"]:
        feature = jnp.tensordot(z, directions, axes=(1, 1))
        before, value = jnp.ones_like(feature), feature
        for p in range(1, degree):
            before, value = value, feature * value - p * before
        return value / math.sqrt(math.factorial(degree))

    return apply


def signals(
    hierarchy: Hierarchy, x: Float[Array, "n d"]
) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
    """Returns beta F(x) and alpha G(F(x)); the target is their sum."""
    base = hierarchy.base(x)
    return hierarchy.beta * base, hierarchy.alpha * hierarchy.composite(base)


def _unit_rows(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "k c"]:
    rows = jax.random.normal(key, shape)
    return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)


class HierarchicalTask(NamedTuple):
    """Draws of a seed: the target, training and test examples."""

    hierarchy: Hierarchy
    train: Dataset
    test: Dataset


def _stream(config: Config, place: int) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.key(config.seed), place)


def order_key(config: Config) -> Key[Array, ""]:
    """Returns the key that draws the order of the training examples."""
    return _stream(config, _ORDER)


def make_hierarchy(config: Config) -> Hierarchy:
    """Returns the target: the paper's parities, or polynomials drawn from the seed.

    With p = base_degree and q = composite_degree, F_i = x_{(i-1)p+1} ... x_{ip} for i = 1 to k, and
    G_i(y) = (-1)^i y_1 ... y_q. Polynomials have directions uniform on the sphere.

    Source: Allen-Zhu and Li (2019), section 8.1; but for the signs eq. 7.1 of the arXiv version,
    with p = 1 and q = k. Polynomials: section 2, the concept class, with one feature an output.
    """
    k, p, q = num_outputs(config), config.base_degree, config.composite_degree
    if config.target == "parity":
        base = parities(np.arange(k * p).reshape(k, p), np.ones(k))
        composite = parities(np.tile(np.arange(q), (k, 1)), (-1.0) ** np.arange(1, k + 1))
    else:
        key = _stream(config, _TARGET)
        base = polynomials(_unit_rows(jax.random.fold_in(key, _BASE), (k, config.d)), p)
        composite = polynomials(_unit_rows(jax.random.fold_in(key, _COMPOSITE), (k, k)), q)
    return Hierarchy(base, composite, config.alpha, config.beta)


def _draw(config: Config, place: int, num_examples: int) -> Dataset:
    """Draws x uniform on {-1, 1}^d and its target."""
    shape = (num_examples, config.d)
    inputs = jax.random.rademacher(_stream(config, place), shape, jnp.float32)
    return Dataset(inputs, sum(signals(make_hierarchy(config), inputs)))


def make_task(config: Config) -> HierarchicalTask:
    """Draws a point's examples."""
    return HierarchicalTask(
        make_hierarchy(config),
        _draw(config, _TRAIN, config.num_train),
        _draw(config, _TEST, config.num_test),
    )


def draw_probe(config: Config) -> Dataset:
    """Draws the fresh examples on which read-outs are fitted."""
    return _draw(config, _PROBE, config.num_probe)


def make_network(config: Config) -> Model:
    """Returns the network."""
    return shallow(config.net, config.width, num_outputs(config), init=config.init)


def initial_params(config: Config) -> Any:
    """Draws the network's parameters, the same for every learner of this seed."""
    return make_network(config).init(_stream(config, _INIT), (config.d,))


def trained_function(config: Config) -> tuple[Callable, tuple[str, ...]]:
    """Returns a learner's `(params, inputs) -> outputs`, and its fixed parameters."""
    apply = make_network(config).apply
    if config.learner == "last":
        return (lambda params, features: features @ params["a"]), ()
    if config.learner == "ntk":

        def linearized(params: Any, inputs: tuple[Any, Array]) -> Array:
            initial, x = inputs
            return kernels.linearize(apply, initial, precision="default")(params, x)

        return linearized, ()
    return apply, ("a",) if config.learner == "hidden" else ()


def fetch_linearized(arrays: Any, replica: Any, index: Array, epoch: Array) -> Dataset:
    """Returns a batch whose inputs contain the parameters of the expansion."""
    del replica, epoch
    initial, data = arrays
    return Dataset((initial, data.inputs[index]), data.targets[index])


def make_training(config: Config, task: HierarchicalTask) -> tuple[Any, Any, Any]:
    """Returns a learner's parameters at the start, training and test examples, for a search.

    The last layer alone is trained on the features of the initial network, which never change. Of
    the linearised network, weight decay pulls the parameters to 0, not to the initial ones: the
    paper leaves this open, and its optimiser would do so.
    """
    initial = initial_params(config)
    if config.learner == "last":
        train, test = (
            Dataset(last_features(config.net, initial, data.inputs), data.targets)
            for data in (task.train, task.test)
        )
        return {"a": initial["a"]}, train, test
    if config.learner == "ntk":
        return initial, (initial, task.train), (initial, task.test)
    return initial, task.train, task.test
