"""Tiles of kernels in two stages: memory, blocks that are prepared once, refused arguments."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import models
from lsa_jax.kernels import Workers, finite_kernel, gram
from lsa_jax.kernels.matrices import programs
from lsa_jax.kernels.matrices.staged import StagedKernel, Stages, stages_of

ONE = jax.devices()[:1]
FEATURES = 1000


def _points(n, numbers=3):
    return np.random.default_rng(n).normal(size=(n, numbers)).astype(np.float32)


def _compiled(stages, n1, n2, numbers=3):
    x1, x2 = _points(n1, numbers), _points(n2, numbers)
    return programs.compile_tile(stages, x1, x2, np.dtype(np.float32), (n1, n2))


def test_a_tile_holds_both_sides_and_its_result_or_the_larger_stage():
    products = Stages(lambda x: jnp.tile(x[:, :1], (1, 50)), lambda f1, f2: f1 @ f2.T)
    program = _compiled(products, 40, 60)
    assert program.held == (4 * 40 * 50, 4 * 60 * 50)
    least = sum(program.held) + 4 * 40 * 60
    assert least <= program.memory <= 1.1 * least
    wide = 10_000  # numbers of an example, of which one is kept
    program = _compiled(Stages(lambda x: x[:, :1], lambda f1, f2: f1 @ f2.T), 5, 8, wide)
    least = 4 * 8 * wide  # of the longer side's examples
    assert program.held == (4 * 5, 4 * 8) and least <= program.memory <= 1.1 * least


def _features(x):
    """A tree, with examples last in one of its arrays."""
    return {"cosines": jnp.cos(x.sum(1)[None] * jnp.arange(FEATURES)[:, None]), "points": x}


def _between(side1, side2):
    products = side1["cosines"].T @ side2["cosines"] / FEATURES
    return products + side1["points"] @ side2["points"].T


def _function(x1, x2):
    return _between(_features(x1), _features(x2))


STAGED = StagedKernel(_function, lambda example: Stages(_features, _between))


@pytest.mark.parametrize(
    "devices", [ONE, jax.devices(), ONE * 3], ids=["one device", "all devices", "threads"]
)
@pytest.mark.parametrize("blocks", [2, 3, 8, 100])
def test_the_matrix_is_that_of_the_function_whatever_there_is_room_for(blocks, devices):
    x1, x2 = _points(30), _points(19)
    limit = blocks * 4 * 4 * (FEATURES + 3) * 1.05 + 6e4  # tiles of 4 examples
    options = {"memory_limit": limit * devices.count(devices[0]), "workers": Workers(devices)}
    for pair in ((x1,), (x1, x2)):
        matrix = gram(STAGED, *pair, tile=4, **options)
        expected = STAGED(*pair[:1], pair[-1])
        np.testing.assert_array_equal(expected, _function(*pair[:1], pair[-1]))
        np.testing.assert_allclose(matrix, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture
def network(key):
    model = models.network([models.Conv(4), models.Relu(), models.Flatten(), models.Dense(3)])
    images = jax.random.normal(key, (11, 5, 5, 2))
    return model, model.init(key, images.shape[1:]), images


@pytest.mark.parametrize("get", ["ntk", "nngp"])
def test_settings_of_a_staged_kernel_keep_its_stages(network, get):
    model, params, images = network
    example = jax.ShapeDtypeStruct(images.shape[1:], images.dtype)
    expected = model.kernel(images, get=get, method="neural_tangents")
    for kernel in (functools.partial(model.kernel, get=get), getattr(model, get)):
        assert stages_of(kernel, example).between is model.kernel.stages(example, get=get).between
        np.testing.assert_allclose(gram(kernel, images, tile=4), expected, rtol=1e-4)
    finite = finite_kernel(model.apply, params, method="layerwise")
    for kernel in (
        functools.partial(model.kernel, get=get, method="neural_tangents"),
        functools.partial(finite, diagonal=True),
    ):
        assert stages_of(kernel, example).between is kernel  # it has no stages
