"""What a preflight says: what fits, what helps, how long it takes at what share of the roofline."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from lsa_jax import backend, kernels, parallel
from lsa_jax.data import stand_ins
from lsa_jax.errors import InputError
from lsa_jax.preflight import calibration, compiled, dry_run, machines, operations, report

ASSUMED = calibration.assumed(0.4)


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


def test_a_gpu_has_the_share_of_its_memory_that_jax_will_take(monkeypatch):
    names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    large, machine = _program(peak=70e9), machines.parse("h100:4")
    assert not report.fits(large, machine) and report.fits(_program(peak=63e9), machine)
    text = report.as_text(machine, [large], [], ASSUMED, 1)
    assert text.splitlines()[0].endswith(
        "for JAX 63.7 of 84.9 GB each (XLA_CLIENT_MEM_FRACTION=0.75)"
    )
    assert "step takes 70.0 GB of 63.7" in text
    told = report.as_json(machine, [large], [], ASSUMED, 1)
    assert told["memory_per_device"] == pytest.approx(0.75 * 84.9e9) and not told["fits"]
    for name in names:
        with monkeypatch.context() as environment:
            environment.setenv(name, "0.95")
            assert report.fits(large, machines.parse("h100:4"))
            environment.setenv(name, "most")
            with pytest.raises(InputError, match=f"{name} is 'most'; accepted: a number above 0"):
                machines.parse("h100")
            assert machines.parse("v5e:2x2").memory == 16.9e9  # what a TPU has can be used


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


def test_a_program_s_line_has_its_operations_bytes_and_least_time():
    count = operations.Count({"highest": 2e12, "bfloat16": 1e12}, 0.5e12, 3e9, has_open_loop=True)
    program = _program(calls=2.5, peak=1.5e9, count=count, seconds=0.25)
    nothing = operations.Count({}, 1, 2, has_open_loop=False)
    unknown = program._replace(peak=None, refusal="no", seconds=None, bound="", count=nothing)
    lines = report.as_text(machines.parse("cpu:4"), [program, unknown], [], ASSUMED, 1).splitlines()
    first = ["step", "2.5", "1.500", "3500+", "3000", "250", "bytes", "bfloat16+highest", "none"]
    assert lines[3].split() == first
    assert lines[4].split() == ["step", "2.5", "-", "1e-09", "2e-06", "-", "-", "-", "none"]
    assert any("+: a loop runs as often as the data say" in line for line in lines)
    assert len({len(line) for line in lines[2:5]}) == 1  # columns end at one place


def test_where_nothing_is_compiled_no_chip_is_said_to_be_idle():
    assert "idle" not in report.as_text(machines.parse("v5e:2x2"), [], [], ASSUMED, 1)


def test_shares_are_told_of_the_kinds_of_programs_that_there_are():
    machine = machines.parse("v5e:2x2")
    tile = _program(name="tile 8 x 8 of kernel", num_devices=1)
    for programs, kinds in (
        ([tile], ["tiles"]),
        ([_program()], ["other programs"]),
        ([_program(), tile], ["tiles", "other programs"]),
    ):
        lines = report.as_text(machine, programs, [], ASSUMED, 1).splitlines()
        assert [line.split(" at ")[0].strip() for line in lines if " at 40%" in line] == kinds


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(119.9, "120 s"), (120, "2 min"), (3599, "59 min"), (7260, "2 h 1 min"), (0.0123, "0.0123 s")],
)
def test_long_times_are_minutes_and_hours(seconds, said):
    machine, everything = machines.parse("v5e:2x2"), calibration.assumed(1.0)
    text = report.as_text(machine, [_program(calls=1, seconds=seconds)], [], everything, 1)
    assert f"a run {said} (" in text


def test_what_the_host_solves_is_told_apart():
    solve = (dry_run.Solve("regression"), 3.0)
    program = (dry_run.Mapped("step", len, (), jax.make_jaxpr(abs)(1.0), 4, "devices", False), 1.0)
    assert report.split_solves([program, solve]) == ([program], [solve])


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
    file.write_text(json.dumps(_rows()))
    one = calibration.measured(file, chip, 0.3).tiles
    assert str(one) == "25% of the roofline's rate, measured (h100.json, one work)"


@pytest.mark.parametrize(
    "content, named",
    [
        (None, "No such file"),
        ("rows", "is not JSON"),
        ("[1]", "not every row has bytes, device"),
        (json.dumps([*_rows(), {"device": "cpu"}]), "not every row has bytes, device"),
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
    file.write_text(json.dumps([row for name in "gdbface" for row in _rows(device=name)]))
    with pytest.raises(InputError, match="measured on a, b, c, d, e, f, g; "):
        calibration.measured(file, machines.CHIPS["h100"], 0.4)
    with pytest.raises(InputError, match="the rates of 'cpu' are not known"):
        calibration.measured(file, machines.CHIPS["cpu"], 0.4)


@pytest.mark.parametrize(
    "field, value",
    [
        *(("ours_s", value) for value in (0, None, -1.0, "fast", float("nan"))),
        *(("device", None), ("tiles", None), ("bytes", None), ("others", "few")),
        *(("products", value) for value in ([1.0], {"float8": 1.0}, {"highest": None})),
    ],
)
def test_a_row_that_no_benchmark_wrote_is_named_with_its_field(field, value, tmp_path):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([*_rows(), *_rows(**{field: value})]))
    with pytest.raises(InputError, match=f"'{file}', in which {field} of row 1 is .*; accepted: "):
        calibration.measured(file, machines.CHIPS["h100"], 0.4)


def test_the_precisions_of_a_chip_are_those_that_its_operations_may_have(tmp_path):
    file, chip = tmp_path / "rows.json", machines.CHIPS["h100"]
    file.write_text(json.dumps(_rows(products={"float8": 1.0})))
    precisions = ", ".join(sorted({*chip.flops} - {"vector"}))
    with pytest.raises(InputError, match="accepted: operations by precision") as caught:
        calibration.measured(file, chip, 0.4)
    told = str(caught.value).rpartition("(")[2].partition(")")[0]
    assert ", ".join(sorted(told.split(", "))) == precisions


def test_a_work_of_which_nothing_is_counted_has_no_share(tmp_path):
    file, chip = tmp_path / "rows.json", machines.CHIPS["h100"]
    file.write_text(json.dumps([*_rows(), *_rows(products={}, bytes=0)]))
    assert calibration.measured(file, chip, 0.3).tiles.measured == (0.25,)


def test_a_benchmarks_row_counts_what_a_preflight_counts():
    def kernel(x1, x2):
        return jnp.tanh(x1 @ x2.T)

    x = np.ones((700, 3), np.float32)
    tiles = calibration.described(lambda: kernels.gram(kernel, x, x[:70]))
    assert tiles["tiles"] and tiles["device"] == "cpu"
    # On 8 devices; tiles that stick out count whole.
    assert tiles["products"]["default"] >= 2 * 3 * 700 * 70 / 8
    assert tiles["products"]["default"] < 2 * 2 * 3 * 700 * 70 / 8
    # The whole matrix is given back, beside what this device's tiles read and write.
    assert tiles["bytes"] >= 4 * 700 * 70 * (1 + 1 / 8)
    others = calibration.described(lambda: jax.jit(kernel)(x, x))
    assert others["products"] == {"default": 2 * 3 * 700**2} and not others["tiles"]
    both = calibration.described(lambda: (jax.jit(kernel)(x, x), kernels.gram(kernel, x, x[:70])))
    assert both["tiles"]
    for name in ("others", "bytes"):
        assert both[name] == others[name] + tiles[name] and min(others[name], tiles[name]) > 0
    mine, its = tiles["products"]["default"], others["products"]["default"]
    assert both["products"] == {"default": its + mine}
    y = np.ones((700, 6), np.float32)  # twice the products of as many tiles
    twice = calibration.described(lambda: kernels.gram(kernel, y, y[:70]))["products"]
    assert twice == {"default": 2 * mine}
    assert calibration.described(None)["products"] is None


def test_a_benchmark_that_is_counted_reads_the_data_that_it_measures():
    wanted = []
    calibration.described(lambda: wanted.append(stand_ins.are_wanted()))
    assert wanted and not any(wanted)
