"""Programs lower for CPUs, GPUs and TPUs alike, without any of these: their products and branches.

Exported are the functions that a layout maps, and a kernel's two stages.
"""

import contextlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import export

from lsa_jax import backend, kernels, models, parallel, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lsa.noise_curves.learners import linearized_model
from lsa_jax.kernels.learned import outer_product as learned
from lsa_jax.kernels.matrices.staged import stages_of
from lsa_jax.models import network
from lsa_jax.training.programs import Recipe, Source, make_epoch, make_evaluate, make_init

PLATFORMS = {"cpu": "cpu", "cuda": "gpu", "tpu": "tpu"}
NUM_TRAIN, BATCH, DEVICES = 16, 8, 4
IMAGE = (16, 16, 3)
LOSS = training.LOSSES["softmax_cross_entropy"]

PLACES = [("replicas", "tpu"), ("batch", "cuda")]  # each layout and each accelerator once

MODELS = {
    "mlp": lambda axis: (models.mlp(16), IMAGE),
    "cnn": lambda axis: (models.cnn(4), IMAGE),
    "wide_resnet": lambda axis: (models.wide_resnet(1, batch_axis=axis), IMAGE),
    "linearised cnn": lambda axis: (linearized_model(models.cnn(4)), IMAGE),
}


def shape(*sizes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def key_form():
    return jax.eval_shape(lambda: jax.random.key(0))


def forms(function, *arguments):
    return jax.eval_shape(function, *arguments)


def stacked(tree, *sizes):
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct((*sizes, *a.shape), a.dtype), tree)


def layout_of(name):
    devices = jax.devices()[:DEVICES]
    if name == "replicas":
        return parallel.ReplicaLayout(2 * DEVICES, devices), (DEVICES, 2)
    return parallel.BatchLayout(BATCH, devices), (DEVICES,)


def training_programs(family, layout_name):
    """Yields the epoch and the evaluation that `training.train` compiles, with their arguments."""
    layout, lead = layout_of(layout_name)
    axis = parallel.BATCH_AXIS if layout_name == "batch" else None
    model, example = MODELS[family](axis)
    outputs = 10
    inputs = shape(NUM_TRAIN, *example)
    frozen = ("initial",) if family == "linearised cnn" else ()
    recipe = Recipe(model, LOSS, lambda _: optax.sgd(0.1), {}, BATCH, BATCH, frozen, layout)
    source, data = Source(None, NUM_TRAIN), Dataset(inputs, shape(NUM_TRAIN, outputs))
    state = stacked(forms(make_init(recipe, source), key_form(), None, data), *lead)
    shared = stacked(data, DEVICES)
    epoch = layout.map(make_epoch(recipe, source), 3)
    yield epoch, (state, stacked(key_form(), *lead), None, shared)
    yield layout.map(make_evaluate(recipe, source), 2), (state, None, shared)


def staged(kernel, example):
    """Yields both stages of a kernel as `gram` compiles them."""
    stages = stages_of(kernel, shape(*example))
    examples = shape(12, *example)
    given = jax.tree.map(lambda a: shape(*a.shape), stages.given)
    yield stages.prepare, (*given, examples)
    tree = forms(stages.prepare, *given, examples)
    yield stages.between, (*given, tree, tree)


def at_start(model):
    return model.init(jax.random.key(0), IMAGE)


def finite(method):
    model = models.cnn(2)
    return staged(kernels.finite_kernel(model.apply, at_start(model), method=method), IMAGE)


def linearised():
    model = models.cnn(2)
    params = at_start(model)
    yield kernels.linearize(model.apply, params), (params, shape(4, *IMAGE))


def outer_product():
    """Yields the programs of `average_gradient_outer_product` at infinite width."""
    kernel, rows, columns, outputs = models.cnn().kernel, 2, 4, 3
    steps, points = kernel.steps, np.ones((rows, 12, 12, 1), np.float32)
    total = forms(lambda: learned.zeros(steps, points, outputs))

    def add_block(points, x, weights, total):
        return learned.add_block(steps, "ntk", columns, None, points, x, weights, total)

    def product(points, total):
        return learned.outer_product(steps, None, points, rows, total)

    yield add_block, (shape(*points.shape), shape(8, 12, 12, 1), shape(8, outputs), total)
    yield product, (shape(*points.shape), total)


POOLED = [models.Conv(4, (3, 3)), models.Relu(), models.AvgPool(), models.Flatten()]
KERNELS = {
    "infinite": lambda: staged(models.cnn().kernel, (28, 28, 1)),
    "infinite with pools": lambda: staged(network([*POOLED, models.Dense(10)]).kernel, (8, 8, 3)),
    "finite layerwise": lambda: finite("layerwise"),
    "finite jacobian": lambda: finite("jacobian"),
    "linearize": linearised,
    "gradients of a recursive feature machine": outer_product,
}


@contextlib.contextmanager
def machine(platform):
    with backend.built_for(PLATFORMS[platform], memory=16e9, count=DEVICES):
        yield


def lowered(function, arguments, platform):
    compiled = function if hasattr(function, "trace") else jax.jit(function)
    return export.export(compiled, platforms=[platform])(*arguments).mlir_module()


def products(text):
    """Returns the precision of every product of matrices and convolution in a program."""
    found = re.findall(r"stablehlo\.(?:dot_general|convolution).*", text)
    return [re.findall(r"\b(DEFAULT|HIGH|HIGHEST)\b", line) for line in found]


def assert_fits_any_processor(text, platform):
    assert "f64" not in text
    assert not re.search(r"custom_call @\S*callback", text)
    if platform != "cpu":
        assert "xla_cpu" not in text


@pytest.mark.parametrize(("layout_name", "platform"), PLACES)
@pytest.mark.parametrize("family", MODELS)
def test_training_lowers_for_every_processor(family, layout_name, platform):
    with machine(platform):
        texts = [lowered(*one, platform) for one in training_programs(family, layout_name)]
    for text in texts:
        assert products(text)
        assert_fits_any_processor(text, platform)
        if family in ("cnn", "wide_resnet"):
            assert ("stablehlo.convolution" in text) == (platform != "cpu")
    assert ("all_reduce" in texts[0]) == (layout_name == "batch")


# Other tests run each kernel on a CPU, against float64 or another way to compute it.
@pytest.mark.parametrize("platform", ["cuda", "tpu"])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_lower_for_every_processor_in_full_precision(name, platform):
    with machine(platform):
        texts = [lowered(*one, platform) for one in KERNELS[name]()]
    found = [precision for text in texts for precision in products(text)]
    # CPUs and GPUs add up the products of a few features number by number, in float32.
    assert bool(found) != (name == "infinite" and platform in ("cpu", "cuda"))
    for precision in found:
        assert precision == ["HIGHEST", "HIGHEST"]
    for text in texts:
        assert_fits_any_processor(text, platform)
