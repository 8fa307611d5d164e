"""A kernel in two stages gives the matrix of its function, and prepares examples few times."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsa_jax import models
from lsa_jax.errors import InputError
from lsa_jax.kernels import Workers, empirical_ntk, finite_kernel, gram, infinite_kernel
from lsa_jax.kernels.matrices.file import Place
from lsa_jax.kernels.matrices.prepared import PreparedBlocks, in_order, rows_and_columns
from lsa_jax.kernels.matrices.programs import DevicePrograms, TileProgram
from lsa_jax.kernels.matrices.staged import StagedKernel, Stages, stages_of

ONE = jax.devices()[:1]
FEATURES = 1000


def _points(n):
    return np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)


def _features(x):
    """A tree, with examples last in one of its arrays."""
    return {"cosines": jnp.cos(x.sum(1)[None] * jnp.arange(FEATURES)[:, None]), "points": x}


def _between(side1, side2):
    products = side1["cosines"].T @ side2["cosines"] / FEATURES
    return products + side1["points"] @ side2["points"].T


def _function(x1, x2):
    return _between(_features(x1), _features(x2))


STAGED = StagedKernel(_function, lambda example: Stages(_features, _between))


def test_a_staged_kernel_is_called_like_its_function():
    x1, x2 = _points(5), _points(4)
    np.testing.assert_array_equal(STAGED(x1, x2), _function(x1, x2))


@pytest.mark.parametrize(
    "devices", [ONE, jax.devices(), ONE * 3], ids=["one device", "all devices", "threads"]
)
@pytest.mark.parametrize("blocks", [2, 3, 4, 8, 100])
def test_the_matrix_is_that_of_the_function_whatever_there_is_room_for(blocks, devices):
    x1, x2 = _points(30), _points(19)
    limit = blocks * 4 * 4 * (FEATURES + 3) * 1.05 + 6e4  # tiles of 4 examples
    for pair in ((x1,), (x1, x2)):
        matrix = gram(
            STAGED,
            *pair,
            tile=4,
            memory_limit=limit * devices.count(devices[0]),
            workers=Workers(devices),
        )
        np.testing.assert_allclose(matrix, _function(*pair[:1], pair[-1]), rtol=1e-4, atol=1e-5)


def _program(shapes, held, spare):
    return TileProgram(shapes, (None, None), None, 0, held, spare)


def _programs(devices, calls):
    """Stands for compiled programs: records what is prepared, and returns it as it is."""

    def prepare(blocks):
        calls.extend(int(block[0, 0]) for block in blocks)
        return [jax.device_put(block, devices[i % len(devices)]) for i, block in enumerate(blocks)]

    return DevicePrograms(devices, (prepare, prepare), None)


def _numbered(n):
    """Examples that say where they are."""
    return np.arange(n, dtype=np.float32)[:, None]


def _prepared(counts, spare, *, symmetric, devices=ONE):
    """Goes through all tiles of 2 x 2; returns where blocks start, in the order of their making."""
    calls = []
    program, programs = _program((2, 2), (10, 10), spare), _programs(devices, calls)
    x1, x2 = (_numbered(2 * count) for count in counts)
    rows, columns = rows_and_columns(x1, None if symmetric else x2, program, programs)
    places = [
        Place(2 * i, 2 * j) for i in range(counts[0]) for j in range(i * symmetric, counts[1])
    ]
    for place in in_order(places, rows, columns):
        (row,), (column,) = rows.on_each([place.row]), columns.on_each([place.column])
        assert row[0, 0] == place.row and column[0, 0] == place.column
    return calls


def test_each_block_is_prepared_once_where_all_fit():
    assert sorted(_prepared((6, 6), 40, symmetric=True)) == [0, 2, 4, 6, 8, 10]
    assert sorted(_prepared((3, 4), 50, symmetric=False)) == sorted([0, 2, 4, 0, 2, 4, 6])


def test_blocks_that_all_fit_can_be_prepared_for_every_device_before_they_are_asked_for():
    devices, calls = jax.devices()[:3], []
    blocks = PreparedBlocks(_numbered(8), 2, 0, _programs(devices, calls), room=4)
    for _ in range(2):
        blocks.fill([4, 0, 6, 0])
    assert sorted(calls) == [0, 4, 6]
    found = blocks.on_each([6, 0, 4])
    assert [int(block[0, 0]) for block in found] == [6, 0, 4] and len(calls) == 3
    assert [block.devices() for block in found] == [{device} for device in devices]
    fewer = PreparedBlocks(_numbered(8), 2, 0, _programs(devices, calls), room=3)
    fewer.fill([0, 2])
    assert len(calls) == 3


def test_columns_alone_are_prepared_again_where_not_all_fit():
    # Room for 5 rows and 2 columns: two passes over 9 columns.
    assert len(_prepared((10, 9), 50, symmetric=False)) == 10 + 2 * 9
    # On and above the diagonal, the second pass begins at the sixth column.
    assert len(_prepared((10, 10), 50, symmetric=True)) == 10 + 10 + 5


def test_tiles_on_the_diagonal_of_a_matrix_with_itself_alone_come_last():
    program, programs = _program((2, 2), (10, 10), 50), _programs(ONE, [])
    places = [Place(row, column) for row in (0, 2) for column in (0, 2, 4) if row <= column]
    itself = rows_and_columns(_numbered(6), None, program, programs)
    assert in_order(places, *itself) == [(0, 2), (0, 4), (2, 4), (0, 0), (2, 2)]
    # With others, where row and column are the same number they are different examples.
    others = rows_and_columns(_numbered(4), _numbered(6), program, programs)
    assert in_order(places, *others) == places


def test_without_spare_memory_a_row_and_a_column_are_held():
    rows, columns = rows_and_columns(
        _numbered(8), None, _program((2, 2), (10, 10), 9), _programs(ONE, [])
    )
    assert (rows.room, columns.room) == (1, 1)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    rounds=st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), max_size=8),
    room=st.integers(1, 4),
)
def test_every_device_gets_its_block_and_keeps_no_more_than_there_is_room_for(rounds, room):
    devices, calls, x = jax.devices()[:3], [], _numbered(19)
    assert len(devices) == 3
    blocks = PreparedBlocks(x, 3, 0, _programs(devices, calls), room)
    for places in rounds:
        calls.clear()
        before = {int(start) for kept in blocks._kept for start in kept}
        found = blocks.on_each([3 * place for place in places])
        for device, place, block in zip(devices, places, found, strict=True):
            assert block.devices() == {device}
            expected = np.minimum(np.arange(3 * place, 3 * place + 3), 18)
            np.testing.assert_array_equal(block[:, 0], expected)
        # What some device held is copied; the others are prepared.
        assert sorted(calls) == sorted({3 * place for place in places} - before)
        assert all(len(kept) <= room for kept in blocks._kept)


@pytest.fixture
def network(key):
    model = models.network(
        [models.Conv(4), models.Relu(), models.Flatten(), models.Dense(3)], parameterization="ntk"
    )
    images = jax.random.normal(key, (11, 5, 5, 2))
    return model, model.init(key, images.shape[1:]), images


@pytest.mark.parametrize("method", ["auto", "vector_products"])
def test_gram_of_the_finite_kernel_is_the_empirical_ntk(network, method):
    model, params, images = network
    selected = {layer: layer == "Conv_0" for layer in params}
    kernel = finite_kernel(model.apply, params, selected=selected, method=method)
    expected = empirical_ntk(model.apply, params, images, selected=selected)
    np.testing.assert_allclose(gram(kernel, images, tile=4), expected, rtol=1e-4, atol=1e-4)
    part = gram(kernel, images[:5], images, tile=4)
    np.testing.assert_allclose(part, expected[:5], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(
        kernel(images, diagonal=True), np.diagonal(expected), rtol=1e-4, atol=1e-4
    )
    assert kernel(images[:2], full=True).shape == (2, 2, 3, 3)


def test_gram_of_the_infinite_kernel_is_the_kernel(network):
    model, _, images = network
    expected = model.kernel(images, method="neural_tangents")
    np.testing.assert_allclose(gram(model.kernel, images, tile=4), expected, rtol=1e-4)
    expected = model.kernel(images, get="nngp")
    np.testing.assert_allclose(gram(model.nngp, images, tile=4), expected, rtol=1e-5)


@pytest.mark.parametrize("get", ["ntk", "nngp"])
def test_settings_of_a_staged_kernel_keep_its_stages(network, get):
    model, params, images = network
    example = jax.ShapeDtypeStruct(images.shape[1:], images.dtype)
    for kernel in (functools.partial(model.kernel, get=get), getattr(model, get)):
        stages = stages_of(kernel, example)
        assert stages.between is model.kernel.stages(example, get=get).between
        blocks = stages.prepare(images)
        np.testing.assert_allclose(
            stages.between(blocks, blocks), model.kernel(images, get=get), rtol=1e-5
        )
    by_the_library = functools.partial(model.kernel, get=get, method="neural_tangents")
    assert stages_of(by_the_library, example).between is by_the_library
    finite = finite_kernel(model.apply, params, method="layerwise")
    assert stages_of(finite, example).between is finite.stages(example).between
    diagonal = functools.partial(finite, diagonal=True)
    assert stages_of(diagonal, example).between is diagonal


@pytest.mark.usefixtures("unchecked")
def test_gram_refuses_what_the_kernels_refuse(network):
    model, params, images = network
    with pytest.raises(InputError, match=r"apply turns x1 \(1, 5, 5, 2\) into \(1,\)"):
        gram(finite_kernel(lambda p, x: model.apply(p, x)[:, 0], params), images)
    with pytest.raises(InputError, match="selected is 'Dense_0'; accepted: booleans"):
        gram(finite_kernel(model.apply, params, selected="Dense_0"), images)
    with pytest.raises(InputError, match="method is 'magic'; accepted: one of 'auto', 'jacobian'"):
        gram(finite_kernel(model.apply, params, method="magic"), images)
    kernel = infinite_kernel(model.kernel).checked(lambda shape: _refuse(shape, 2))
    with pytest.raises(InputError, match="2 channels"):
        gram(kernel, images)


def _refuse(shape, channels):
    if shape[-1] == channels:
        raise InputError(f"{channels} channels")
