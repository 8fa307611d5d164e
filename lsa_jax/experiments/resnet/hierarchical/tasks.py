"""The target, the examples and the network of a point's configuration."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import ml_collections
from jaxtyping import Array, Key

from lsa_jax import kernels
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.resnet.hierarchical.settings import num_outputs
from lsa_jax.experiments.resnet.shallow import last_features, shallow
from lsa_jax.experiments.resnet.signals import (
    Hierarchy,
    paper_parities,
    sample_cube,
    signals,
    smooth_hierarchy,
)
from lsa_jax.experiments.resnet.streams import Hierarchical
from lsa_jax.models.model import Model


class HierarchicalTask(NamedTuple):
    """Draws of a seed: the target, training and test examples."""

    hierarchy: Hierarchy
    train: Dataset
    test: Dataset


class Training(NamedTuple):
    """Arguments of a search: parameters at the start, and the arrays of both data sets."""

    start: Any
    train: Any
    test: Any


def _stream(config: ml_collections.ConfigDict, place: int) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.key(config.seed), place)


def order_key(config: ml_collections.ConfigDict) -> Key[Array, ""]:
    """Returns the key that draws the order of the training examples."""
    return _stream(config, Hierarchical.ORDER)


def make_hierarchy(config: ml_collections.ConfigDict) -> Hierarchy:
    """Returns the target; smooth ones are drawn from the seed."""
    degrees = (config.base_degree, config.composite_degree)
    weights = (config.alpha, config.beta)
    if config.target == "parity":
        return paper_parities(config.d, *degrees, *weights, num_outputs(config))
    key = _stream(config, Hierarchical.TARGET)
    return smooth_hierarchy(key, config.d, num_outputs(config), *degrees, *weights)


def _draw(config: ml_collections.ConfigDict, place: int, num_examples: int) -> Dataset:
    inputs = sample_cube(_stream(config, place), num_examples, config.d)
    return Dataset(inputs, sum(signals(make_hierarchy(config), inputs)))


def make_task(config: ml_collections.ConfigDict) -> HierarchicalTask:
    """Draws a point's examples."""
    return HierarchicalTask(
        make_hierarchy(config),
        _draw(config, Hierarchical.TRAIN, config.num_train),
        _draw(config, Hierarchical.TEST, config.num_test),
    )


def draw_probe(config: ml_collections.ConfigDict) -> Dataset:
    """Draws the fresh examples on which read-outs are fitted."""
    return _draw(config, Hierarchical.PROBE, config.num_probe)


def make_network(config: ml_collections.ConfigDict) -> Model:
    """Returns the network."""
    return shallow(config.net, config.width, num_outputs(config), init=config.init)


def initial_params(config: ml_collections.ConfigDict) -> Any:
    """Draws the network's parameters, the same for every learner of this seed."""
    return make_network(config).init(_stream(config, Hierarchical.INIT), (config.d,))


def trained_function(config: ml_collections.ConfigDict) -> tuple[Callable, tuple[str, ...]]:
    """Returns a learner's function of (params, inputs), see `make_training`, and its fixed part."""
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
    """Returns a batch whose inputs come with the parameters that the network is expanded at."""
    del replica, epoch
    initial, data = arrays
    return Dataset((initial, data.inputs[index]), data.targets[index])


def make_training(config: ml_collections.ConfigDict, task: HierarchicalTask) -> Training:
    """Returns a learner's parameters and examples.

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
        return Training({"a": initial["a"]}, train, test)
    if config.learner == "ntk":
        return Training(initial, (initial, task.train), (initial, task.test))
    return Training(initial, task.train, task.test)
