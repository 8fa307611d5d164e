"""Tiles: the chosen program and its memory, prepared blocks, rounds, and their places."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsa_jax import models
from lsa_jax.errors import InputError
from lsa_jax.kernels import Workers, finite_kernel, gram
from lsa_jax.kernels.matrices import programs
from lsa_jax.kernels.matrices.programs import DevicePrograms, TileProgram
from lsa_jax.kernels.matrices.rounds import PreparedBlocks
from lsa_jax.kernels.matrices.staged import StagedKernel, Stages, stages_of

ONE = jax.devices()[:1]
FEATURES = 1000


def _points(n, numbers=3):
    return np.random.default_rng(n).normal(size=(n, numbers)).astype(np.float32)


def _numbered(n):
    """Examples whose value is their number."""
    return np.arange(n, dtype=np.float32)[:, None]


# --- programs -----------------------------------------------------------------------------------


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


@pytest.fixture
def sizes(monkeypatch):
    """Compiles nothing: a tile's memory is a function of its shape. Returns the shapes tried."""
    tried = []

    def install(memory):
        def compile_tile(stages, x1, x2, dtype, shape):
            tried.append(shape)
            return TileProgram(shape, (len, len), max, int(memory(*shape)), (1, 1))

        monkeypatch.setattr(programs, "compile_tile", compile_tile)
        return tried

    return install


def _choose(n1, n2, limit, num_devices=1):
    stages = Stages(lambda x: x, lambda x1, x2: x1 @ x2.T)
    dtype = np.dtype(np.float32)
    return programs.choose(stages, _points(n1), _points(n2), dtype, limit, num_devices)


def test_sides_are_even_shares_of_the_longer_axis_and_at_least_halved(sizes):
    tried = sizes(lambda rows, columns: 100 * rows * columns)
    assert _choose(50, 50, 100 * 50 * 50).shape == (50, 50)  # just the limit
    tried.clear()
    program = _choose(250, 100, 100 * 60 * 60)
    # 94 pairs a side would fit if memory grew with pairs, and a third of 250 is 84; then its half.
    assert tried == [(250, 100), (84, 84), (42, 42)] and program.shape == (42, 42)
    with pytest.raises(InputError, match="tile of 1 x 1 pairs takes 100; accepted: a higher"):
        _choose(30, 30, 99)
    assert tried[-1] == (1, 1)


def test_a_compiler_without_memory_gets_a_quarter_until_there_is_nothing_to_cut(monkeypatch, sizes):
    tried = sizes(lambda rows, columns: 10)
    compile_tile = programs.compile_tile

    def refuse(largest, message):
        def compile_or_not(stages, x1, x2, dtype, shape):
            program = compile_tile(stages, x1, x2, dtype, shape)
            if max(shape) > largest:
                raise jax.errors.JaxRuntimeError(message)
            return program

        tried.clear()
        monkeypatch.setattr(programs, "compile_tile", compile_or_not)

    refuse(20, "RESOURCE_EXHAUSTED: Ran out of memory")
    assert _choose(300, 40, 1e9).shape == (8, 8)
    assert tried == [(150, 40), (34, 34), (8, 8)]  # even shares of the longer side
    for message, last in (("RESOURCE_EXHAUSTED: Ran out", (1, 1)), ("INTERNAL: none", (64, 64))):
        refuse(0, message)
        with pytest.raises(jax.errors.JaxRuntimeError, match=message):
            _choose(64, 64, 1e9)
        assert tried[-1] == last


# --- prepared blocks ----------------------------------------------------------------------------


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


def _programs(devices, calls):
    """Stands for compiled programs: records the blocks, and returns them unchanged."""

    def prepare(blocks):
        calls.extend(int(block[0, 0]) for block in blocks)
        return [jax.device_put(block, devices[i % len(devices)]) for i, block in enumerate(blocks)]

    return DevicePrograms(devices, (prepare, prepare), None)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    rounds=st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), max_size=8),
    room=st.integers(1, 8),
)
def test_every_device_gets_its_block_and_keeps_no_more_than_there_is_room_for(rounds, room):
    devices, calls, x = jax.devices()[:3], [], _numbered(19)
    blocks = PreparedBlocks(x, 3, 0, _programs(devices, calls), room)
    blocks.fill([0, 6])  # all of a few, or none where not all fit
    assert sorted(calls) == ([0, 6] if room * 3 >= 19 else [])
    for places in rounds:
        calls.clear()
        before = {int(start) for kept in blocks._kept for start in kept}
        found = blocks.on_each([3 * place for place in places])
        for device, place, block in zip(devices, places, found, strict=True):
            assert block.devices() == {device}
            expected = np.minimum(np.arange(3 * place, 3 * place + 3), 18)
            np.testing.assert_array_equal(block[:, 0], expected)
        # Blocks that some device held are copied; the others are prepared.
        assert sorted(calls) == sorted({3 * place for place in places} - before)
        assert all(len(kept) <= room for kept in blocks._kept)


# --- kernels of networks in stages ---------------------------------------------------------------


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
    by_the_library = functools.partial(model.kernel, get=get, method="neural_tangents")
    assert stages_of(by_the_library, example).between is by_the_library
    finite = finite_kernel(model.apply, params, method="layerwise")
    assert stages_of(finite, example).between is finite.stages(example).between
    diagonal = functools.partial(finite, diagonal=True)
    assert stages_of(diagonal, example).between is diagonal


@pytest.mark.usefixtures("unchecked")
def test_gram_refuses_arguments_that_the_kernels_refuse(network):
    model, params, images = network

    def refuse(shape):
        raise InputError(f"{shape[-1]} channels")

    for kernel, words in [
        (finite_kernel(lambda p, x: model.apply(p, x)[:, 0], params), r"into \(1,\)"),
        (finite_kernel(model.apply, params, method="magic"), "method is 'magic'"),
        (model.kernel.checked(refuse), "2 channels"),
    ]:
        with pytest.raises(InputError, match=words):
            gram(kernel, images)
