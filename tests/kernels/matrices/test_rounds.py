"""Rounds of tiles: which there are, who computes which, in what order, and what is refused.

Programs are stand-ins that compute in numpy, and processes are one after the other.
"""

import jax
import numpy as np
import pytest

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import Workers
from lsa_jax.kernels.matrices import job as jobs
from lsa_jax.kernels.matrices import programs, rounds
from lsa_jax.kernels.matrices.file import Place
from lsa_jax.kernels.matrices.packed import count_tiles
from lsa_jax.kernels.matrices.programs import DevicePrograms, TileProgram
from lsa_jax.processes import ProcessGroup


class Team(ProcessGroup):
    """One process of several, that gets zeros from the others."""

    def gather_devices(self, tree):
        found = np.zeros((self.size, *tree.shape), tree.dtype)
        found[self.index] = tree
        return found

    def from_first(self, function):
        return function()

    def on_first(self, function):
        return function()

    def in_each(self, function):
        return function()


def kernel(x1, x2):
    return x1 @ x2.T


def numbered(count):
    return np.arange(1, count + 1, dtype=np.float32)[:, None]


def make_job(rows, columns=None, *, devices=1, **settings):
    own = {"packed": False, "group": Team(0, 1), "tile": None, "limit": None} | settings
    sharded = own["packed"] and own["group"].size > 1
    job = jobs.make_job(
        *(kernel, numbered(rows), None if columns is None else numbered(columns), "float32"),
        *(own["tile"], own["limit"], Workers(jax.devices()[:devices]), own["packed"]),
    )
    return job._replace(group=own["group"], sharded=sharded)


def a_program(shape, memory=0):
    return TileProgram(shape, (None, None), None, memory, (1, 1), spare=100.0)


# --- who computes what --------------------------------------------------------------------------


@pytest.fixture
def log(monkeypatch):
    """Has tiles computed in numpy; tells when each round begins, on how many devices, and ends."""
    events = []

    def on_devices(stages, program, devices):
        def prepare(blocks):
            return [
                jax.device_put(some, devices[i % len(devices)]) for i, some in enumerate(blocks)
            ]

        def between(blocks1, blocks2):
            pairs = zip(blocks1, blocks2, strict=True)
            values = np.stack([np.asarray(a) @ np.asarray(b).T for a, b in pairs])
            events.append(("begins", len(values)))
            return lambda: events.append("ends") or values

        return DevicePrograms(devices, (prepare, prepare), between)

    monkeypatch.setattr(programs, "on_devices", on_devices)
    return events


@pytest.mark.parametrize(
    ("sizes", "processes", "devices"),
    [((7, 5), 1, 1), ((7, 5), 1, 4), ((7, 5), 2, 2), ((5, 11), 3, 2), ((7, None), 2, 3)],
)
def test_each_tile_is_computed_by_one_device_and_comes_to_all_in_one_order(
    sizes, processes, devices, log
):
    whole = np.outer(np.arange(1, sizes[0] + 1), np.arange(1, (sizes[1] or sizes[0]) + 1))
    found, orders = np.zeros(whole.shape), set()
    for index in range(processes):
        job = make_job(*sizes, devices=devices, group=Team(index, processes))
        places = rounds.places_of(job, (3, 2) if sizes[1] else (2, 2))
        program = a_program((3, 2) if sizes[1] else (2, 2))
        order = []
        for place, values in rounds.tiles(job, program, places):
            here = tuple(slice(p, p + n) for p, n in zip(place, values.shape, strict=True))
            assert values.shape == whole[here].shape
            found[here] += values
            order.append(place)
        assert sorted(order) == sorted(places)
        orders.add(tuple(order))
    assert len(orders) == 1
    np.testing.assert_array_equal(found, whole if sizes[1] else np.where(found, whole, 0))
    if not sizes[1]:
        assert np.all(found[np.triu_indices(sizes[0])] != 0)


def test_a_round_begins_before_the_last_one_is_fetched(log):
    job = make_job(6, 2, devices=2)
    list(rounds.tiles(job, a_program((1, 2)), rounds.places_of(job, (1, 2))))
    begin = ("begins", 2)
    assert log == [begin, begin, "ends", begin, "ends", "ends"]


def test_of_few_tiles_no_more_devices_take_part_than_there_are(log):
    for count, group, taking_part in ((2, Team(0, 1), 2), (2, Team(1, 2), 1), (3, Team(0, 2), 2)):
        log.clear()
        job = make_job(count, 2, devices=4, group=group)
        list(rounds.tiles(job, a_program((1, 2)), rounds.places_of(job, (1, 2))))
        assert log == [("begins", taking_part), "ends"]


# --- which tiles there are ----------------------------------------------------------------------


def test_tiles_lie_side_by_side_and_those_of_a_symmetric_matrix_above_the_diagonal():
    rows, columns = (0, 3, 6), (0, 2, 4)
    expected = [Place(i, j) for i in rows for j in columns]
    assert rounds.places_of(make_job(7, 5), (3, 2)) == expected
    upper = [Place(i, j) for i in rows for j in rows if i <= j]
    assert rounds.places_of(make_job(7), (3, 3)) == upper
    shared = [
        rounds.places_of(make_job(7, packed=True, group=Team(index, 4)), (3, 3))
        for index in range(4)
    ]
    assert sum(shared, []) == upper
    assert {len(part) for part in shared} == {1, 2}
    six = [
        rounds.places_of(make_job(7, packed=True, group=Team(index, 6)), (3, 3))
        for index in range(6)
    ]
    assert [len(part) for part in six] == [1] * 6
    with pytest.raises(InputError, match=r"\(7, 7\) has 6 tiles of \(3, 3\); .* 7 processes"):
        rounds.places_of(make_job(7, packed=True, group=Team(0, 7)), (3, 3))


@pytest.mark.parametrize("processes", [1, 2, 3, 6, 28])
def test_a_tile_is_as_large_as_it_can_be_with_one_for_each_process(processes, monkeypatch):
    monkeypatch.setattr(programs, "choose", lambda *given: a_program((7, 7)))
    monkeypatch.setattr(programs, "compile_tile", lambda *given: a_program(given[-1]))
    side = rounds.make_program(
        make_job(7, packed=True, group=Team(0, processes)), None, held=0
    ).shape[0]
    assert side == max(s for s in range(1, 8) if count_tiles(7, s) >= processes)


def test_devices_of_all_processes_are_to_have_tiles(monkeypatch):
    told = []
    monkeypatch.setattr(programs, "choose", lambda *given: told.append(given) or a_program((2, 2)))
    for group, packed, expected in (
        (Team(0, 1), False, 2),
        (Team(0, 3), True, 6),
    ):
        rounds.make_program(
            make_job(7, devices=2, packed=packed, group=group, limit=50.0), None, held=0
        )
        assert told[-1][-1] == expected and told[-1][-2] == 50.0


# --- memory -------------------------------------------------------------------------------------


def test_a_tile_has_the_limit_or_its_share_of_it_where_threads_have_one_memory(monkeypatch):
    shapes = []

    def compile_tile(*given):
        shapes.append(given[-1])
        return a_program(given[-1], memory=10)

    monkeypatch.setattr(programs, "compile_tile", compile_tile)
    monkeypatch.setattr(rounds.memory, "tile_limit", lambda *given: 70.0 + given[1] + given[2])
    job = make_job(9, 5, devices=2, tile=4, limit=60.0)
    threads = job._replace(devices=(jax.devices()[0],) * 3)
    for one, limit in ((job, 60), (threads, 20), (job._replace(memory_limit=None), 77)):
        assert rounds.make_program(one, None, held=5).spare == limit - 10
        assert rounds.make_program(one, (2, 3), held=5).spare == limit - 10
    assert shapes == [(4, 4), (2, 3)] * 3
    with pytest.raises(InputError, match="accepted: a smaller tile or a higher limit"):
        rounds.make_program(threads._replace(memory_limit=29.0), None, held=0)


# --- what is not finite -------------------------------------------------------------------------


def test_entries_that_are_not_finite_are_counted_and_named_by_where_they_are(monkeypatch):
    values = np.zeros((3, 14))
    rounds._check_finite(values, Place(10, 20))
    values[1, [2, 5]], values[2, 5] = np.nan, np.inf
    words = "not finite for 3 pairs, in rows 11, 12 and columns 22, 25;"
    with pytest.raises(NumericalError, match=words):
        rounds._check_finite(values, Place(10, 20))
    for count, names in ((10, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9;"), (11, r"8, 9, \.\.\. \(11 in all")):
        values = np.zeros((3, 14))
        values[2, :count] = -np.inf
        with pytest.raises(NumericalError, match=f"rows 2 and columns .*{names}"):
            rounds._check_finite(values, Place(0, 0))
