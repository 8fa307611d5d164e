"""Programs of a machine that is not there: found without computing, counted, compiled."""

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
from lsa_jax.kernels.matrices.staged import Stages
from lsa_jax.preflight import compiled, dry_run, machines, operations, traffic
from lsa_jax.sweep.experiment import Experiment
from lsa_jax.sweep.points import Point


def test_the_roofline_is_the_dearer_of_operations_and_bytes():
    chip = machines.Chip("gpu", "a chip", 1e9, 1e9, {"default": 1e12, "highest": 1e11})
    many = operations.Count({"default": 4e12, "highest": 2e11}, 0, 3e9, False)
    assert compiled.roofline(many, chip) == (pytest.approx(6.0), "operations")
    assert compiled.roofline(many._replace(bytes=7e9), chip) == (pytest.approx(7.0), "bytes")
    for unknown in (machines.CHIPS["cpu"], chip._replace(bandwidth=None), chip._replace(flops={})):
        assert compiled.roofline(many, unknown) == (None, "")


def test_outside_products_an_operation_a_lane_and_cycle_counts_where_that_takes_longer():
    chip = machines.Chip("gpu", "a chip", 1e9, 1e9, {"default": 1e12, "vector": 1e10})
    many = operations.Count({"default": 4e12}, 5e10, 1e9, False)
    assert compiled.roofline(many, chip) == (pytest.approx(5.0), "operations")
    assert compiled.roofline(many._replace(others=3e10), chip) == (pytest.approx(4.0), "operations")


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
    for name, extra in (("v5e:2x2", "preflight-tpu"), ("h100", "preflight-gpu")):
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
        # By matrices gaps take a few more: two parts of each vector, and a look for near ones.
        assert other.flops == pytest.approx(tpu.flops, rel=0.2)


def test_bytes_of_a_tile_are_its_loops_for_each_block_with_what_it_takes_and_gives(monkeypatch):
    stages = Stages(lambda x: x, lambda x1, x2: x1 @ x2.T)
    forms = tuple(jax.ShapeDtypeStruct((8, 3), np.float32) for _ in range(2))
    between = types.SimpleNamespace(as_text=lambda: "the program")
    tile = TileProgram((16, 32), (None, None), between, 0, (1000, 2000))
    program = dry_run.Matrix("a kernel", stages, forms, tile)

    def found(whole, in_loop):
        monkeypatch.setattr(traffic, "program_bytes", {"the program": whole}.get)
        monkeypatch.setattr(traffic, "loop_bytes", {"the program": in_loop}.get)
        return compiled.count_tile(program)

    # 16 x 32 pairs are 8 blocks of 8 x 8; a product of two numbers in 3 is 6 operations.
    assert found(None, 50).bytes == 8 * 50 + 1000 + 2000 + 4 * 16 * 32
    assert found(70, 50).bytes == 70 and found(70, None).bytes == 70
    assert found(None, None).bytes == 8 * operations.count(stages.between, *forms).bytes
    assert sum(found(70, 50).products.values()) == 16 * 32 * 6


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

    def point(seed, m):
        # One that is the same throughout, as the sweep's own is by chance at one point.
        fixed = {"seed": 3, "other_seed": 5}
        fields = {"experiment": "lsa/lemmas", "seed": seed, "m": m, "fit": fixed}
        config = ml_collections.ConfigDict(fields)
        return Point(f"{seed}-{m}", {}, config)

    points = [point(seed, m) for seed in (3, 4, 5) for m in (1, 2)] + [point(9, 1), point(9, 1)]
    found = dry_run.run(Experiment(run, None), points, None)
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


def test_what_is_refused_on_some_devices_is_tried_on_others(monkeypatch):
    recorder = dry_run.DryRun(without_data=True)
    with backend.noted_by(recorder):
        for count in (1, 2):
            parallel.map_devices(jnp.sin, jax.devices()[:count])(np.ones((count, 3), np.float32))
    compile_mapped, tried = compiled._compile_mapped, []

    def refused(program, *others):
        tried.append(program.num_devices)
        done = compile_mapped(program, *others)
        return done._replace(peak=None, refusal="no memory") if len(tried) == 1 else done

    monkeypatch.setattr(compiled, "_compile_mapped", refused)
    with backend.built_for("cpu", count=2):
        chip = machines.CHIPS["cpu"]
        first, second = compiled.compile_programs(recorder.found, jax.devices()[:2], chip)
    assert tried == [1, 2] and first.refusal == "no memory" and second.refusal == ""


def test_what_is_given_away_is_held_once():
    def peak(donate):
        recorder = dry_run.DryRun(without_data=True)
        with backend.noted_by(recorder):
            add = parallel.map_devices(lambda x: x + 1, jax.devices()[:1], donate=donate)
            add(np.ones((1, 1000), np.float32))
        with backend.built_for("cpu"):
            devices, chip = jax.devices()[:1], machines.CHIPS["cpu"]
            (program,) = compiled.compile_programs(recorder.found, devices, chip)
        return program.peak

    assert peak(donate=False) == pytest.approx(2 * 4000, rel=0.05)
    assert peak(donate=True) == pytest.approx(4000, rel=0.05)
