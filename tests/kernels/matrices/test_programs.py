"""Tiles: the chosen program and its memory, prepared blocks, rounds, and their places."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsa_jax import models
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import Workers, finite_kernel, gram
from lsa_jax.kernels.matrices import gram as grams
from lsa_jax.kernels.matrices import programs, rounds
from lsa_jax.kernels.matrices.file import Place
from lsa_jax.kernels.matrices.programs import DevicePrograms, TileProgram
from lsa_jax.kernels.matrices.rounds import PreparedBlocks, in_order, rows_and_columns
from lsa_jax.kernels.matrices.sharded import count_tiles
from lsa_jax.kernels.matrices.staged import StagedKernel, Stages, stages_of
from lsa_jax.processes import ProcessGroup

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


@pytest.mark.parametrize("power, side", [(2, 100), (1, 200)], ids=["pairs", "side"])
def test_a_tile_is_made_to_suit_the_cache_where_memory_grows_with_pairs(power, side, sizes):
    """Where it grows with the side, a quarter of the pairs gives back half of the memory."""
    tried = sizes(lambda rows, columns: 4 * 8e6 * (rows / 200) ** power)
    assert _choose(200, 200, 1e9).shape == (side, side)
    assert tried == [(200, 200), (100, 100)]
    tried = sizes(lambda rows, columns: 8e6)  # just fits
    assert _choose(200, 200, 1e9).shape == (200, 200)


def test_several_devices_have_several_tiles_each_but_no_small_ones(sizes, monkeypatch):
    sizes(lambda rows, columns: rows * columns)
    for num_devices, n, side in ((1, 256, 256), (4, 512, 128), (4, 100, 50), (5, 768, 128)):
        assert _choose(n, n, 1e9, num_devices).shape == (side, side)
    assert [programs.largest_side(n) for n in (7, 256, 5000)] == [7, 256, 256]
    monkeypatch.setattr(programs.backend, "is_cpu", lambda: False)
    assert programs.largest_side(5000) == 1024


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


def _program(shape=(2, 2), held=(10, 10), spare=100.0, memory=0):
    return TileProgram(shape, (None, None), None, memory, held, spare)


def _programs(devices, calls):
    """Stands for compiled programs: records the blocks, and returns them unchanged."""

    def prepare(blocks):
        calls.extend(int(block[0, 0]) for block in blocks)
        return [jax.device_put(block, devices[i % len(devices)]) for i, block in enumerate(blocks)]

    return DevicePrograms(devices, (prepare, prepare), None)


def _prepared(counts, spare, *, symmetric):
    """Goes through all tiles of 2 x 2; returns where blocks start, in the order of their making."""
    calls = []
    x1, x2 = (_numbered(2 * count) for count in counts)
    blocks = rows_and_columns(
        x1, None if symmetric else x2, _program(spare=spare), _programs(ONE, calls)
    )
    places = [
        Place(2 * i, 2 * j) for i in range(counts[0]) for j in range(i * symmetric, counts[1])
    ]
    for place in in_order(places, *blocks):
        (row,), (column,) = (b.on_each([p]) for b, p in zip(blocks, place, strict=True))
        assert row[0, 0] == place.row and column[0, 0] == place.column
    return calls


def test_blocks_are_prepared_once_where_all_fit_and_otherwise_columns_again():
    assert sorted(_prepared((6, 6), 40, symmetric=True)) == [0, 2, 4, 6, 8, 10]
    assert sorted(_prepared((3, 4), 50, symmetric=False)) == sorted([0, 2, 4, 0, 2, 4, 6])
    # Room for 5 rows and 2 columns: two passes over 9 columns.
    assert len(_prepared((10, 9), 50, symmetric=False)) == 10 + 2 * 9
    # On and above the diagonal, the second pass begins at the sixth column.
    assert len(_prepared((10, 10), 50, symmetric=True)) == 10 + 10 + 5
    least = rows_and_columns(_numbered(8), None, _program(spare=9), _programs(ONE, []))
    assert [side.room for side in least] == [1, 1]


def test_tiles_on_the_diagonal_of_a_matrix_with_itself_come_last():
    program, compiled = _program(spare=50), _programs(ONE, [])
    places = [Place(row, column) for row in (0, 2) for column in (0, 2, 4) if row <= column]
    itself = rows_and_columns(_numbered(6), None, program, compiled)
    assert in_order(places, *itself) == [(0, 2), (0, 4), (2, 4), (0, 0), (2, 2)]
    # With others, where row and column are the same number they are different examples.
    others = rows_and_columns(_numbered(4), _numbered(6), program, compiled)
    assert in_order(places, *others) == places


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


# --- rounds, of stand-ins that compute in numpy, in processes one after the other -----------------


class Team(ProcessGroup):
    """One process of several, that gets zeros from the others."""

    def gather_devices(self, tree):
        found = np.zeros((self.size, *tree.shape), tree.dtype)
        found[self.index] = tree
        return found

    def from_first(self, function):
        return function()

    on_first = in_each = from_first


def make_job(rows, columns=None, *, devices=1, tile=None, limit=None, packed=False, group=None):
    x2 = None if columns is None else _numbered(columns)
    workers = Workers(jax.devices()[:devices])
    job = grams.make_job(
        lambda a, b: a @ b.T, _numbered(rows), x2, "float32", tile, limit, workers, packed
    )
    group = group or Team(0, 1)
    return job._replace(group=group, sharded=packed and group.size > 1)


def tiles_of(job, shape):
    inputs = job.stages, job.x1, job.x2, _program(shape, (1, 1)), grams._places(job, shape)
    return list(rounds.tiles(*inputs, job.own, job.team))


@pytest.fixture
def log(monkeypatch):
    """Computes tiles in numpy; records the begin of each round, its devices, and its end."""
    events = []

    def on_devices(stages, program, devices):
        prepare = _programs(devices, []).prepare

        def between(blocks1, blocks2):
            pairs = zip(blocks1, blocks2, strict=True)
            values = np.stack([np.asarray(a + 1) @ np.asarray(b + 1).T for a, b in pairs])
            events.append(("begins", len(values)))
            return lambda: events.append("ends") or values

        return DevicePrograms(devices, prepare, between)

    monkeypatch.setattr(programs, "on_devices", on_devices)
    return events


@pytest.mark.parametrize(
    ("sizes", "processes", "devices"),
    [((7, 5), 1, 1), ((7, 5), 1, 4), ((7, 5), 2, 2), ((5, 11), 3, 2), ((7, None), 2, 3)],
)
def test_each_tile_is_computed_by_one_device_and_comes_to_all_in_one_order(
    sizes, processes, devices, log
):
    columns = sizes[1] or sizes[0]
    whole = np.outer(np.arange(1, sizes[0] + 1), np.arange(1, columns + 1))
    found, orders = np.zeros(whole.shape), set()
    for index in range(processes):
        job, shape = make_job(*sizes, devices=devices, group=Team(index, processes)), (3, 2)
        shape = (3, 2) if sizes[1] else (2, 2)
        tiles = tiles_of(job, shape)
        for place, values in tiles:
            found[tuple(slice(p, p + n) for p, n in zip(place, values.shape, strict=True))] += (
                values
            )
        assert sorted(tile.place for tile in tiles) == sorted(grams._places(job, shape))
        orders.add(tuple(tile.place for tile in tiles))
    assert len(orders) == 1
    upper = np.triu if not sizes[1] else np.asarray
    np.testing.assert_array_equal(upper(found), upper(whole))


def test_a_round_begins_before_the_last_one_is_fetched_on_no_more_devices_than_tiles(log):
    tiles_of(make_job(6, 2, devices=2), (1, 2))
    begin = ("begins", 2)
    assert log == [begin, begin, "ends", begin, "ends", "ends"]
    for count, group, taking_part in ((2, Team(0, 1), 2), (2, Team(1, 2), 1), (3, Team(0, 2), 2)):
        log.clear()
        tiles_of(make_job(count, 2, devices=4, group=group), (1, 2))
        assert log == [("begins", taking_part), "ends"]


def test_places_cover_a_matrix_and_shards_split_those_of_a_symmetric_one():
    rows, columns = (0, 3, 6), (0, 2, 4)
    expected = [Place(i, j) for i in rows for j in columns]
    assert grams._places(make_job(7, 5), (3, 2)) == expected
    upper = [Place(i, j) for i in rows for j in rows if i <= j]
    assert grams._places(make_job(7), (3, 3)) == upper
    for count in (4, 6):
        jobs = [make_job(7, packed=True, group=Team(index, count)) for index in range(count)]
        shared = [grams._places(job, (3, 3)) for job in jobs]
        assert sum(shared, []) == upper and min(map(len, shared)) == 1
    with pytest.raises(InputError, match="6 tiles"):
        grams._places(make_job(7, packed=True, group=Team(0, 7)), (3, 3))


@pytest.mark.parametrize("processes", [1, 2, 3, 6, 28])
def test_a_tile_leaves_one_for_each_process_and_several_for_all_devices(processes, monkeypatch):
    given = []
    choose = lambda *arguments: given.append(arguments) or _program((7, 7))  # noqa: E731
    monkeypatch.setattr(programs, "choose", choose)
    monkeypatch.setattr(programs, "compile_tile", lambda *arguments: _program(arguments[-1]))
    job = make_job(7, devices=2, limit=50.0, packed=True, group=Team(0, processes))
    side = grams.make_program(job, None, held=0).shape[0]
    assert side == max(s for s in range(1, 8) if count_tiles(7, s) >= processes)
    assert given[-1][-2:] == (50.0, 2 * processes)


def test_a_tile_has_the_limit_or_its_share_of_it_where_threads_have_one_memory(monkeypatch):
    monkeypatch.setattr(programs, "compile_tile", lambda *given: _program(given[-1], memory=10))
    monkeypatch.setattr(grams.memory, "tile_limit", lambda *given: 70.0 + given[1] + given[2])
    job = make_job(9, 5, devices=2, tile=4, limit=60.0)
    threads = job._replace(devices=(jax.devices()[0],) * 3)
    for one, limit in ((job, 60), (threads, 20), (job._replace(memory_limit=None), 77)):
        for shape in (None, (2, 3)):
            program = grams.make_program(one, shape, held=5)
            assert program.spare == limit - 10 and program.shape == (shape or (4, 4))
    with pytest.raises(InputError, match="accepted: a smaller tile or a higher limit"):
        grams.make_program(threads._replace(memory_limit=29.0), None, held=0)


def test_entries_that_are_not_finite_are_counted_and_named_by_where_they_are():
    values = np.zeros((3, 14))
    rounds._check_finite(values, Place(10, 20))
    values[1, [2, 5]], values[2, 5] = np.nan, np.inf
    with pytest.raises(NumericalError, match="3 pairs, in rows 11, 12 and columns 22, 25;"):
        rounds._check_finite(values, Place(10, 20))
    values[2, :11] = -np.inf
    with pytest.raises(NumericalError, match=r"columns .*8, 9, \.\.\. \(11 in all"):
        rounds._check_finite(values, Place(0, 0))


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
