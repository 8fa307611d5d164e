"""Programs of a machine that is not there: found without computing, counted, compiled, priced."""

import json
import math

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from jax import lax

from lsa_jax import backend, costs, kernels, parallel
from lsa_jax.errors import InputError
from lsa_jax.preflight import dry_run, machines, programs
from lsa_jax.sweep.experiment import Experiment
from lsa_jax.sweep.points import Point


def linear(x1, x2):
    return x1 @ x2.T


@pytest.fixture
def recorder():
    return dry_run.DryRun(without_data=True)


@pytest.mark.parametrize(
    "name, count, platform",
    [("cpu", 1, "cpu"), ("cpu:4", 4, "cpu"), ("h100:4", 4, "gpu"), ("v5e:2x2", 4, "tpu")],
)
def test_a_machine_is_its_kind_and_count(name, count, platform):
    machine = machines.parse(name)
    assert (machine.count, machine.chip.platform) == (count, platform)


@pytest.mark.parametrize("name", ["", "h200", "v5e", "v5e:4", "h100:2x2", "cpu:0", "v5e:2x"])
def test_unknown_machines_are_refused(name):
    with pytest.raises(InputError, match="--topology is .*accepted"):
        machines.parse(name)


@pytest.mark.parametrize("name", ["XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"])
def test_a_gpu_has_the_share_of_its_memory_that_jax_takes(name, monkeypatch):
    for variable in ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"):
        monkeypatch.delenv(variable, raising=False)
    assert machines.parse("h100:4").memory == pytest.approx(0.75 * 84.9e9)
    monkeypatch.setenv(name, "0.9")
    assert machines.parse("h100:4").memory == pytest.approx(0.9 * 84.9e9)
    assert machines.parse("v5e:2x2").memory == 16.9e9
    monkeypatch.setenv(name, "most")
    with pytest.raises(InputError, match=name):
        machines.parse("h100")


def test_mapped_functions_are_noted_and_give_zeros(recorder):
    def step(state, x):
        return state, (jnp.sum(x) + state)[None] * 3

    with backend.noted_by(recorder):
        layout = parallel.ReplicaLayout(4, jax.devices()[:2])
        mapped = layout.map(step, 1)
        state = layout.spread(np.arange(4.0, dtype=np.float32))
        for _ in range(5):
            state, found = mapped(state, layout.share(np.ones(3, np.float32)))
        alone = parallel.compile_function(lambda x: x[None] + 5)(jnp.ones(3))
        lengths = [4, 4, 4, 1]
        mapped = parallel.map_devices(jnp.sin, jax.devices()[:1])
        for segment in backend.each(range(4), lengths):  # equal ones stand for each other
            mapped(np.zeros((1, lengths[segment]), np.float32))
    np.testing.assert_array_equal(layout.gather(state), np.zeros(4))
    np.testing.assert_array_equal(layout.gather(found), np.zeros((4, 1)))
    np.testing.assert_array_equal(alone, np.zeros((1, 3)))
    (first, calls), *others = recorder.found
    assert (first.name, first.num_devices, calls) == ("step", 2, 5)
    assert [calls for _, calls in others] == [1, 3, 1]


def test_a_matrix_is_as_many_tiles_as_it_takes_and_none_of_it_is_computed(recorder):
    x = np.ones((700, 3), np.float32)
    with backend.built_for("cpu"), backend.noted_by(recorder):
        matrix = kernels.gram(linear, x)
        predictions = kernels.regress(matrix, np.ones((700, 2)), matrix[:5], ridge=0.1).predictions
    assert matrix.shape == (700, 700) and not matrix.any() and matrix.strides == (0, 0)
    assert predictions.shape == (5, 2)
    (tiles, calls), (solve, solves) = recorder.found
    a_side = math.ceil(700 / tiles.tile.shape[0])
    assert calls == a_side * (a_side + 1) / 2 > 1
    assert (solve.name, solves) == ("Cholesky factorisation of 700 examples", 1)


def test_of_groups_that_differ_in_their_seeds_alone_one_is_run_for_all():
    ran = []

    def run(group, data, directory, progress):
        ran.append([(point.config.seed, point.config.m) for point in group])
        parallel.map_devices(lambda x: x + 1, jax.devices()[:1])(np.zeros((1, group[0].config.m)))

    def point(seed, m):
        fixed = {"seed": 3, "other_seed": 5}  # the same throughout, once equal to the sweep's own
        fields = {"experiment": "lsa/lemmas", "seed": seed, "m": m, "fit": fixed}
        return Point(f"{seed}-{m}", {}, ml_collections.ConfigDict(fields))

    points = [point(seed, m) for seed in (3, 4, 5) for m in (1, 2)] + [point(9, 1), point(9, 1)]
    experiment = Experiment(run, None)
    found = dry_run.run(experiment, points, None)
    assert ran == [[(3, 1)], [(3, 2)], [(9, 1), (9, 1)]]
    assert [calls for _, calls in found] == [3 + 1, 3]
    # Points of the host are counted and not run.
    on_host = experiment._replace(on_host=lambda config: True)
    assert dry_run.run(on_host, points, None) == [(dry_run.Solve("a point of lsa/lemmas"), 8)]
    assert len(ran) == 3


def test_exchanges_and_memory_are_those_of_the_compiled_program(recorder):
    def mean(x):
        return lax.pmean(x @ x, parallel.BATCH_AXIS)

    with backend.noted_by(recorder):
        for function, donate in ((jnp.sin, False), (jnp.sin, True), (mean, False)):
            given = {"axis_name": parallel.BATCH_AXIS, "donate": donate}
            mapped = parallel.map_devices(function, jax.devices()[:2], **given)
            mapped(np.ones((2, 100, 100), np.float32))
    machine = machines.parse("cpu:2")
    with backend.built_for("cpu", count=2):
        found = programs.compile_programs(
            recorder.found, jax.devices()[:2], machine.chip, programs.assumed(0.5)
        )
    held, given_away, together = found
    assert held.collectives == {} and together.collectives == {"all-reduce": 1}
    assert held.peak == pytest.approx(2 * 4e4, rel=0.05)  # input and output
    assert given_away.peak == pytest.approx(4e4, rel=0.05)
    assert together.count.products == {"default": 2 * 100**3}  # of one device


def program(**fields):
    count = costs.Count({"default": 1e12}, 0, 1e9, False)
    plain = programs.Compiled("step", 4, False, 10, 1e9, "", count, 0.5, "bytes", 1.0, {})
    return plain._replace(**fields)


def test_time_is_that_of_all_calls_with_tiles_shared_by_all_devices():
    tile = program(name="tile 8 x 8 of kernel", num_devices=1, is_tile=True, likely_seconds=5.0)
    whole = programs.Result(
        machines.parse("v5e:2x2"), [program(), tile], {}, programs.assumed(0.5), 5
    )
    assert whole.seconds == pytest.approx(10 * 1.0 + 10 * 5.0 / 4) and whole.fits
    epochs = whole._replace(programs=[program(name="train_epoch", calls=200), tile])
    # 200 epochs of a second, and the tiles of before.
    expected = "an epoch 1 s, a run 42.5 s (the mean of 5), the sweep's programs 3 min 32 s"
    assert expected in epochs.as_text()
    unknown = whole._replace(programs=[program(), program(likely_seconds=None)])
    assert unknown.seconds is None and "are not known" in unknown.as_text()
    too_large = whole._replace(programs=[program(peak=1e12), program(peak=None)])
    assert not too_large.fits and "takes 1000.0 GB of 16.9" in too_large.as_text()


def row(**fields):
    found = {"device": "NVIDIA H100 80GB HBM3", "tiles": True, "bytes": 3352e9, "ours_s": 4.0}
    return found | {"products": {"highest": 66.9e12}, "others": 0.0} | fields


def test_shares_of_the_roofline_are_the_median_of_a_benchmarks(tmp_path):
    file, chip = tmp_path / "h100.json", costs.CHIPS["h100"]
    # A second by operations and by bytes alike, in 4, 2 and 8 seconds; two rows count nothing.
    seconds = [row(), row(ours_s=2.0), row(ours_s=8.0)]
    file.write_text(json.dumps([*seconds, row(products=None), row(products={}, bytes=0)]))
    calibrated, (tiles, others) = programs.calibrated(file, chip, 0.3)
    assert calibrated == chip
    assert tiles.value == 0.25 and "h100.json, 3 works: 12% to 50%" in tiles.source
    assert others.value == 0.3 and "assumed" in others.source


@pytest.mark.parametrize(
    "content",
    [None, "rows", "[1]", "{}", [{"device": "cpu"}], [row(device="cpu")], [row(products=None)]]
    + [[row(), row(ours_s=value)] for value in (0, None, -1.0, "fast", float("nan"))]
    + [[row(products=value)] for value in ([1.0], {"float8": 1.0}, {"highest": None})]
    + [[row(others="few")], [row(bytes=None)]],
)
def test_a_calibration_without_counts_on_the_chip_is_refused(content, tmp_path):
    file = tmp_path / "rows.json"
    if content is not None:
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError, match="rows.json.*accepted: "):
        programs.calibrated(file, costs.CHIPS["h100"], 0.4)
