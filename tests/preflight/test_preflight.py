"""Programs of a machine that is not there: found without computing, counted, compiled."""

import json
import math
import types

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from jax import lax

from lsa_jax import backend, kernels, models, parallel
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices.programs import TileProgram
from lsa_jax.preflight import calibration, compiled, dry_run, machines, operations, report
from lsa_jax.sweep.experiment import Experiment
from lsa_jax.sweep.points import Point

ASSUMED = calibration.assumed(0.4)


def test_the_roofline_is_the_dearer_of_operations_and_bytes():
    chip = machines.Chip("gpu", "a chip", 1e9, 1e9, {"default": 1e12, "highest": 1e11})
    many = operations.Count({"default": 4e12, "highest": 2e11}, 0, 3e9, False)
    assert compiled.roofline(many, chip) == (pytest.approx(6.0), "operations")
    assert compiled.roofline(many._replace(bytes=7e9), chip) == (pytest.approx(7.0), "bytes")
    assert compiled.roofline(many, machines.CHIPS["cpu"]) == (None, "")


@pytest.mark.parametrize(
    "name, count, platform",
    [("cpu", 1, "cpu"), ("cpu:4", 4, "cpu"), ("h100:4", 4, "gpu"), ("v5e:2x2", 4, "tpu")],
)
def test_a_machine_is_its_kind_and_count(name, count, platform):
    machine = machines.parse(name)
    assert (machine.count, machine.chip.platform) == (count, platform)


@pytest.mark.parametrize(
    "name", ["", "h200", "v5e", "v5e:4", "h100:2x2", "cpu:0", "v5e:2x", "cpu:a"]
)
def test_unknown_machines_are_refused(name):
    with pytest.raises(InputError, match="--topology is .*accepted"):
        machines.parse(name)


def test_a_missing_compiler_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setattr(machines.importlib.util, "find_spec", lambda name: None)
    for name, extra in (("v5e:2x2", "preflight_tpu"), ("h100", "preflight_gpu")):
        with pytest.raises(InputError, match=rf"lsa_jax\[{extra}\]"):
            machines.check_plugin(machines.parse(name))
    machines.check_plugin(machines.parse("cpu"))


def test_mapped_functions_are_noted_and_give_zeros():
    recorder = dry_run.DryRun(without_data=True)

    def step(state, x):
        raise_if_run = jnp.sum(x) + state
        return state, raise_if_run[None] * 3

    with backend.noted_by(recorder):
        layout = parallel.ReplicaLayout(4, jax.devices()[:2])
        mapped = layout.map(step, 1)
        state = layout.spread(np.arange(4.0, dtype=np.float32))
        for _ in range(5):
            state, found = mapped(state, layout.share(np.ones(3, np.float32)))
    np.testing.assert_array_equal(layout.gather(state), np.zeros(4))
    np.testing.assert_array_equal(layout.gather(found), np.zeros((4, 1)))
    ((program, calls),) = recorder.found
    assert (program.name, program.num_devices, calls) == ("step", 2, 5)


def test_equal_segments_stand_for_each_other():
    recorder = dry_run.DryRun(without_data=True)
    with backend.noted_by(recorder):
        mapped = parallel.map_devices(lambda x: x + 1, jax.devices()[:1])
        lengths = [4, 4, 4, 1]
        for segment in backend.each(range(4), lengths):
            mapped(np.zeros((1, lengths[segment]), np.float32))
    assert sorted(calls for _, calls in recorder.found) == [1, 3]


def test_a_matrix_is_as_many_tiles_as_it_takes_and_none_of_it_is_computed():
    recorder = dry_run.DryRun(without_data=True)

    def kernel(x1, x2):
        return x1 @ x2.T

    x = np.ones((700, 3), np.float32)
    with backend.built_for("cpu"), backend.noted_by(recorder):
        matrix = kernels.gram(kernel, x)
        predictions = kernels.regress(matrix, np.ones((700, 2)), matrix[:5], ridge=0.1).predictions
    assert matrix.shape == (700, 700) and not matrix.any() and matrix.strides == (0, 0)
    assert predictions.shape == (5, 2)
    (tiles, calls), (solve, solves) = recorder.found
    a_side = math.ceil(700 / tiles.tile.shape[0])
    assert calls == a_side * (a_side + 1) / 2 > 1
    assert (solve.name, solves) == ("Cholesky factorisation of 700 examples", 1)


def test_operations_of_a_tile_are_those_of_its_pairs_on_any_processor(monkeypatch):
    def choose(stages, x1, x2, *others):
        no_loop = types.SimpleNamespace(as_text=lambda: "")
        return TileProgram((512, 512), (None, None), no_loop, 0, (0, 0))

    def of_a_pair(platform):
        recorder = dry_run.DryRun(without_data=True)
        with backend.built_for(platform, memory=16e9), backend.noted_by(recorder):
            kernels.gram(models.cnn().kernel, np.ones((512, 28, 28, 1), np.float32))
            ((program, _),) = recorder.found
            return compiled.count_tile(program).scaled(1 / 512**2)

    monkeypatch.setattr(dry_run.tile_programs, "choose", choose)
    tpu, gpu, cpu = map(of_a_pair, ("tpu", "gpu", "cpu"))
    # A product of 9 numbers at each of the 13 x 13 positions; elsewhere it is summed one by one.
    assert tpu.products == {"highest": pytest.approx(2 * 9 * 13**2)}
    assert not gpu.products and not cpu.products
    for other in (gpu, cpu):
        assert other.flops == pytest.approx(tpu.flops, rel=0.1)


def test_kernels_that_differ_have_tiles_of_their_own(monkeypatch):
    def choose(stages, x1, x2, *others):
        return TileProgram((len(x1), len(x2)), (None, None), None, 0, (0, 0))

    monkeypatch.setattr(dry_run.tile_programs, "choose", choose)
    x = np.ones((20, 12, 12, 1), np.float32)
    few, many = models.cnn(2), models.cnn(4)
    key = jax.random.key(0)
    shapes = [
        jax.eval_shape(lambda m=model: m.init(key, x.shape[1:])) for model in (few, few, many)
    ]
    params = [jax.tree.map(lambda form: np.zeros(form.shape, form.dtype), some) for some in shapes]
    finite = [
        kernels.finite_kernel(model.apply, drawn, method="jacobian")
        for model, drawn in zip((few, few, many), params, strict=True)
    ]
    identity = np.eye(few.kernel.transform_size(x.shape[1:]))
    infinite = [few.kernel, models.cnn(2).kernel, few.nngp, models.cnn(2, channels=(8,)).kernel]
    machines_of = [few.kernel.transformed(identity), few.kernel.transformed(2 * identity)]
    recorder = dry_run.DryRun(without_data=True)
    with backend.built_for("gpu", memory=16e9), backend.noted_by(recorder):
        for kernel in (*finite, *infinite, *machines_of):
            kernels.gram(kernel, x)
    # Parameters drawn anew, a network built anew and another transform change no program.
    assert [(program.name.split()[0], calls) for program, calls in recorder.found] == [
        ("finite_kernel", 2),
        ("finite_kernel", 1),
        ("infinite_kernel", 2),
        ("infinite_kernel", 1),
        ("infinite_kernel", 1),
        ("transformed", 2),
    ]


@pytest.mark.parametrize("memory_gb, side", [(1e-3, 300), (16.0, 1000), (85.0, 1000)])
def test_tiles_are_chosen_by_the_memory_of_the_machine(memory_gb, side):
    recorder = dry_run.DryRun(without_data=True)

    def kernel(x1, x2):
        return x1 @ x2.T

    with backend.built_for("gpu", memory=1e9 * memory_gb), backend.noted_by(recorder):
        kernels.gram(kernel, np.ones((2000, 3), np.float32))
    ((tiles, _),) = recorder.found
    assert tiles.tile.memory <= 1e9 * memory_gb / 2
    assert 0.8 * side <= tiles.tile.shape[0] <= 1.2 * side


def test_groups_that_differ_in_their_seeds_alone_are_gone_through_once():
    ran = []

    def run(group, data, directory, progress):
        ran.append([(point.config.seed, point.config.m) for point in group])
        parallel.map_devices(lambda x: x + 1, jax.devices()[:1])(np.zeros((1, group[0].config.m)))

    def load(points, data_dir):
        return None

    def point(seed, m):
        # One that is the same throughout, as the sweep's own is by chance at one point.
        fixed = {"seed": 3, "other_seed": 5}
        fields = {"experiment": "lsa/lemmas", "seed": seed, "m": m, "fit": fixed}
        config = ml_collections.ConfigDict(fields)
        return Point(f"{seed}-{m}", {}, config)

    points = [point(seed, m) for seed in (3, 4, 5) for m in (1, 2)] + [point(9, 1), point(9, 1)]
    grouped = [[one] for one in points[:-2]] + [points[-2:]]
    found = dry_run.run(Experiment(load, lambda points: grouped, run, None), points, None)
    assert ran == [[(3, 1)], [(3, 2)], [(9, 1), (9, 1)]]
    assert [calls for _, calls in found] == [3 + 1, 3]


def test_one_of_several_seeds_counts_for_all_and_a_function_of_one_device_gives_zeros():
    made = []

    def make(seed):
        made.append(seed)
        return parallel.compile_function(lambda x: x[None] + seed)(jnp.ones(3))

    recorder = dry_run.DryRun(without_data=True)
    with backend.noted_by(recorder):
        found = backend.for_each(make, [5, 6, 7])
    assert made == [5] and list(found) == [5, 6, 7]
    np.testing.assert_array_equal(found[7], np.zeros((1, 3)))
    assert [(p.num_devices, calls) for p, calls in recorder.found] == [(1, 3)]
    real = backend.for_each(make, [5, 6])
    np.testing.assert_array_equal(real[6], np.full((1, 3), 7.0))


def test_what_exchanges_nothing_is_compiled_once_for_any_number_of_devices(monkeypatch):
    recorder, compilations = dry_run.DryRun(without_data=True), []

    def step(x):
        return jnp.sin(x) @ x

    def mean(x):
        return lax.pmean(x @ x, parallel.BATCH_AXIS)

    with backend.noted_by(recorder):
        for count in (2, 1, 4):
            for function in (step, mean):
                given = {"axis_name": parallel.BATCH_AXIS}
                mapped = parallel.map_devices(function, jax.devices()[:count], **given)
                mapped(np.ones((count, 3, 3), np.float32))
        parallel.map_devices(step, jax.devices()[:2])(np.ones((2, 5, 5), np.float32))
    compile_mapped = compiled._compile_mapped

    def watched(program, *others):
        compilations.append((program.name, program.num_devices, program.forms[0].shape[1]))
        return compile_mapped(program, *others)

    monkeypatch.setattr(compiled, "_compile_mapped", watched)
    chip, said = machines.CHIPS["cpu"], []
    with backend.built_for("cpu", count=4):
        programs = compiled.compile_programs(
            recorder.found, jax.devices()[:4], chip, lambda *one: said.append(one)
        )
        apart = [compile_mapped(one, 1, jax.devices()[:4], chip) for one, _ in recorder.found]
    # Of one device, the mean is of its own and no exchange.
    assert compilations == [("step", 2, 3), ("mean", 2, 3), ("mean", 1, 3), ("mean", 4, 3)] + [
        ("step", 2, 5)
    ]
    assert said == list(enumerate(program.name for program in programs))
    for one, other in zip(programs, apart, strict=True):
        assert (one.peak, one.num_devices) == (other.peak, other.num_devices)
        assert (one.count, one.collectives) == (other.count, other.collectives)


def test_exchanges_are_told_where_a_compiled_program_cannot_be_read(monkeypatch):
    def unread(compiled):
        raise jax.errors.JaxRuntimeError("INTERNAL: RET_CHECK failure")

    def alone(x):
        return x @ x

    def together(x):
        return lax.psum(x @ x, "devices")

    recorder = dry_run.DryRun(without_data=True)
    with backend.noted_by(recorder):
        for function in (alone, together):
            parallel.map_devices(function, jax.devices()[:2])(np.ones((2, 3, 3), np.float32))
    monkeypatch.setattr(jax.stages.Compiled, "as_text", unread)
    machine = machines.parse("cpu:2")
    found = compiled.compile_programs(recorder.found, jax.devices()[:2], machine.chip)
    assert [program.collectives for program in found] == [{}, None]
    assert all(program.peak > 0 for program in found)
    lines = report.as_text(machine, found, [], ASSUMED, 1).splitlines()
    assert [line.split("  ")[-1].strip() for line in lines[3:5]] == ["none", "not told"]


def _program(**fields):
    count = operations.Count({"default": 1e12}, 0, 1e9, False)
    plain = compiled.Compiled("step", 4, 10, 1e9, "", count, 0.5, "bytes", {})
    return plain._replace(**fields)


def test_what_does_not_fit_is_said_with_what_would_help():
    machine = machines.parse("v5e:2x2")
    large = _program(peak=40e9)
    assert report.fits(_program(), machine) and not report.fits(large, machine)
    text = report.as_text(machine, [large], [], ASSUMED, 1)
    assert "step takes 40.0 GB of 16.9; what helps: 3 times as many chips" in text
    assert "model.remat" in text and "fewer replicas" in text
    tile = _program(name="tile 8 x 8 of kernel", num_devices=1, peak=40e9)
    assert "what helps: a smaller tile" in report.as_text(machine, [tile], [], ASSUMED, 1)
    refused = _program(peak=None, refusal="RESOURCE_EXHAUSTED: too large")
    assert not report.fits(refused, machine)
    assert (
        "does not compile: RESOURCE_EXHAUSTED: too large; what helps: 2 times as many"
        in report.as_text(machine, [refused], [], ASSUMED, 1)
    )


def test_time_is_that_of_all_calls_tiles_shared_by_all_devices():
    machine = machines.parse("v5e:2x2")
    half, tenth = calibration.Share(0.5), calibration.Share(0.1)
    shares = calibration.Shares(tiles=tenth, others=half)
    assert report.total_seconds([_program()], machine, shares) == 10 * 0.5 / 0.5
    tile = _program(name="tile 8 x 8 of kernel", num_devices=1)
    assert report.total_seconds([tile], machine, shares) == pytest.approx(10 * 0.5 / 4 / 0.1)
    epoch = _program(name="train_epoch", calls=200)
    text = report.as_text(machine, [epoch, tile], [], shares, 5)
    # 200 epochs of 0.5 s at a half, and the tiles of before.
    assert "an epoch 1 s, a run 42.5 s (the mean of 5), the sweep's programs 3 min" in text


def test_chips_that_nothing_runs_on_are_said_to_be_idle():
    machine = machines.parse("v5e:2x2")

    def said(*programs):
        return report.as_text(machine, list(programs), [], ASSUMED, 1)

    alone = _program(num_devices=1)
    assert "3 of 4 chips would be idle" in said(alone)
    assert "idle" not in said(alone, _program())
    assert "idle" not in said(_program(name="tile 8 x 8 of kernel", num_devices=1))


def _rows(**fields):
    row = {"device": "NVIDIA H100 80GB HBM3", "tiles": True, "bytes": 3352e9, "ours_s": 4.0}
    return [row | {"products": {"highest": 66.9e12}, "others": 0.0} | fields]


def test_shares_of_the_roofline_are_those_that_a_benchmark_reached(tmp_path):
    file, chip = tmp_path / "h100.json", machines.CHIPS["h100"]
    # A second by operations and by bytes alike, in 4, 2 and 8 seconds.
    rows = [*_rows(), *_rows(ours_s=2.0), *_rows(ours_s=8.0), *_rows(products=None)]
    file.write_text(json.dumps(rows))
    tiles, others = calibration.measured(file, chip, 0.3)
    assert tiles.value == 0.25 and sorted(tiles.measured) == [0.125, 0.25, 0.5]
    assert others.value == 0.3 and not others.measured
    assert str(tiles).endswith("measured (h100.json, 3 works: 12% to 50%)")
    assert "30%" in str(others) and "assumed" in str(others)


@pytest.mark.parametrize(
    "content, named",
    [
        (None, "No such file"),
        ("rows", "is not JSON"),
        ("[1]", "not every row has bytes, device"),
        (json.dumps(_rows(device="cpu")), "measured on cpu; accepted: on NVIDIA H100"),
        (json.dumps(_rows(products=None)), "no work's operations are counted"),
    ],
)
def test_a_calibration_that_tells_nothing_is_refused(content, named, tmp_path):
    file = tmp_path / "rows.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=named) as caught:
        calibration.measured(file, machines.CHIPS["h100"], 0.4)
    assert "accepted: " in str(caught.value)
    with pytest.raises(InputError, match="the rates of 'cpu' are not known"):
        calibration.measured(file, machines.CHIPS["cpu"], 0.4)


def test_a_benchmarks_row_counts_what_a_preflight_counts():
    def kernel(x1, x2):
        return x1 @ x2.T

    x = np.ones((700, 3), np.float32)
    tiles = calibration.described(lambda: kernels.gram(kernel, x, x[:70]))
    assert tiles["tiles"] and tiles["device"] == "cpu"
    # On 8 devices; tiles that stick out count whole.
    assert tiles["products"]["default"] >= 2 * 3 * 700 * 70 / 8
    assert tiles["products"]["default"] < 2 * 2 * 3 * 700 * 70 / 8
    others = calibration.described(lambda: jax.jit(kernel)(x, x))
    assert others["products"] == {"default": 2 * 3 * 700**2} and not others["tiles"]
    assert calibration.described(None)["products"] is None
