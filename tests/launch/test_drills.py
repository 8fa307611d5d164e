"""Whatever happens to a long command or its files, nothing is lost, and one line says what to do.

The short drills are of what all experiments share, with a sweep of a second (drilled_sweep.py). The
slow ones kill every long command, and a quick sweep of every experiment, at random moments.
"""

import contextlib
import itertools
import json
import os
import re
import resource
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

from lsa_jax.errors import DamageWarning, InputError, StorageError
from lsa_jax.sweep import registry, run

NAMES = registry.names()
ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("drilled_sweep.py")
DRILL = runpy.run_path(str(SCRIPT))
sweep, content = DRILL["sweep"], DRILL["content"]

SECOND_GROUP = "rate=0.01-seed=0"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("whole")
    sweep(workdir)
    return workdir


@pytest.fixture
def half(whole, tmp_path):
    """A sweep whose second group has its checkpoints, but neither its kernel nor its results."""
    return _half(whole, tmp_path / "half")


def _half(whole, workdir):
    shutil.copytree(whole, workdir)
    for name in ("results.csv", "report.json", "report.md"):
        (workdir / name).unlink()
    for path in workdir.glob("runs/rate=0.01-*"):
        shutil.rmtree(path)
    return workdir


def _one_line(error):
    assert "\n" not in str(error.value)
    return str(error.value)


# Killed


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_killed_at_random_moments_or_started_twice_it_ends_with_the_same_results(whole, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", SCRIPT, tmp_path, "0"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["kills"] > 0
    # Of two at once, one works, and the other says so; unless it came when all was done.
    codes, errors = found["codes"], re.findall("^error: .*$", done.stderr, re.MULTILINE)
    assert 0 in codes and set(codes) <= {0, 2} and len(errors) == codes.count(2), done.stderr
    assert all("in use by another sweep" in line for line in errors)
    for name in ("whole", "killed", "both"):
        assert content(tmp_path / name) == content(whole)
        assert not list((tmp_path / name).rglob("*.partial")), name
        assert not list((tmp_path / name).glob("groups/*/scratch")), name


def test_a_kill_before_the_sweep_is_recorded_is_no_obstacle(tmp_path):
    for name in (".lock", ".config.json.partial"):
        (tmp_path / name).write_text("{")
    run._check_workdir(tmp_path, {})


# A disk that takes no more


@contextlib.contextmanager
def _mounted(folder):
    """A small disk of its own; yields what changes its options."""

    def mount(*options):
        return subprocess.run(["mount", *options, folder], capture_output=True, text=True)

    if shutil.which("mount") is None or mount("-t", "tmpfs", "-o", "size=4m", "tmpfs").returncode:
        pytest.skip("mounting a small disk needs Linux and root")
    try:
        yield lambda options: mount("-o", f"remount,{options}").check_returncode()
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.contextmanager
def _small_disk(folder):
    with _mounted(folder) as remount:
        yield lambda full: remount(f"size={full}")


@contextlib.contextmanager
def _small_files(folder):
    """Files that may not grow, as a quota does it, and which needs no root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # What is compiled is not to be kept: jax warns where it cannot.
    name = "jax_persistent_cache_min_compile_time_secs"
    kept = getattr(jax.config, name)
    jax.config.update(name, 1e9)
    try:
        yield lambda size: resource.setrlimit(
            resource.RLIMIT_FSIZE, (soft if size is None else size, hard)
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        jax.config.update(name, kept)


@pytest.mark.parametrize(
    ("disk", "sizes", "enough"),
    [(_small_disk, ("16k", "256k"), "4m"), (_small_files, (400, 50_000), None)],
    ids=["full disk", "limit of files"],
)
def test_a_full_disk_is_one_line_and_costs_nothing_but_time(whole, tmp_path, disk, sizes, enough):
    workdir = tmp_path / "sweep"
    workdir.mkdir()
    with disk(workdir) as limit:
        for size in sizes:
            limit(size)
            with pytest.raises(StorageError) as error:
                sweep(workdir)
            line = _one_line(error)
            assert re.match(rf"{workdir}/.* cannot be written \([\d,]+ bytes\): ", line)
            assert not (workdir / "results.csv").exists()
            assert not list(workdir.rglob("*.partial"))
        limit(enough)
        sweep(workdir)
        assert content(workdir) == content(whole)


def test_a_folder_that_is_read_only_is_one_line_and_stays_as_it_is(whole, tmp_path):
    (tmp_path / "disk").mkdir()
    with _mounted(tmp_path / "disk") as remount:
        workdir = _half(whole, tmp_path / "disk" / "half")
        before = sorted(workdir.rglob("*"))
        remount("ro")
        with pytest.raises(StorageError) as error:
            sweep(workdir)
        assert f"--workdir {workdir} cannot be written: Read-only" in _one_line(error)
        with pytest.raises(StorageError, match="cannot be written: Read-only"):
            sweep(tmp_path / "disk" / "new")
        assert sorted(workdir.rglob("*")) == before
        remount("rw")
        sweep(workdir)
        assert content(workdir) == content(whole)


# Damage


def _newest(workdir):
    return workdir / "groups" / SECOND_GROUP / "network" / "step_00000004"


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _flip_numbers(step):
    _flip(max((file for file in step.rglob("*") if file.is_file()), key=lambda f: f.stat().st_size))


def _cut_all(step):
    for file in step.rglob("*"):
        if file.is_file():
            os.truncate(file, file.stat().st_size // 2)


def _damage_both(step):
    _flip_numbers(step)
    _flip_numbers(step.with_name("step_00000003"))


@pytest.mark.parametrize(
    ("damage", "instead"),
    [
        (_flip_numbers, ["goes on from step 3"]),
        (_cut_all, ["goes on from step 3"]),
        (_damage_both, ["goes on from step 3", "starts again"]),
    ],
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(whole, half, damage, instead):
    damage(_newest(half))
    with pytest.warns(DamageWarning) as said:
        sweep(half)
    lines = [str(one.message) for one in said]
    assert [line.partition("; the run ")[2] for line in lines] == instead
    assert lines[0].startswith(f"checkpoint {_newest(half)} is damaged") and "\n" not in lines[0]
    assert content(half) == content(whole)


@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("name", ["config.json", "runs/rate=0.1-seed=0/result.json"])
def test_a_record_cut_short_is_named_and_nothing_is_changed(half, name, share):
    path = half / name
    os.truncate(path, int(share * path.stat().st_size))
    before = {p: p.stat().st_mtime_ns for p in half.rglob("*") if p.name != ".lock"}
    with pytest.raises(InputError, match=f"^{re.escape(str(path))} is damaged; ") as error:
        sweep(half)
    _one_line(error)
    assert {p: p.stat().st_mtime_ns for p in half.rglob("*") if p.name != ".lock"} == before


def test_a_damaged_result_is_computed_again_and_damaged_reports_are_written_again(whole, tmp_path):
    workdir = tmp_path / "copy"
    shutil.copytree(whole, workdir)
    for name in ("results.csv", "report.json", "report.md"):
        os.truncate(workdir / name, 20)
    shutil.rmtree(workdir / "runs" / SECOND_GROUP)  # as the line on a damaged result asks for
    sweep(workdir)
    assert content(workdir) == content(whole)


# The clock


def test_a_clock_that_goes_back_and_files_from_the_future_change_nothing(whole, half, monkeypatch):
    for path in half.rglob("*"):
        os.utime(path, (4e9, 4e9))
    hours = itertools.count(1_000_000, -3600)
    monkeypatch.setattr(time, "time", lambda: float(next(hours)))
    monkeypatch.setattr(time, "time_ns", lambda: 10**9 * next(hours))
    results = sweep(half)
    monkeypatch.undo()
    assert (results["seconds"] >= 0).all()
    assert content(half) == content(whole)


# Every long command


def _begin(arguments, log):
    command = [sys.executable, "-m", *map(str, arguments)]
    # Where there is no data set, none is downloaded.
    environment = {"LSA_DATA_DIR": str(log.parent)} | os.environ
    with open(log, "ab") as file:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)


def _finish(arguments, log):
    """Runs a command to its end; returns what it took of the processor."""
    process = _begin(arguments, log)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    said = log.read_text()
    if process.returncode == 2 and "missing data" in said:
        pytest.skip(said.strip().splitlines()[-1])
    assert process.returncode == 0, said[-3000:]
    assert "Traceback" not in said
    return usage.ru_utime + usage.ru_stime


CLOCK = {"seconds", "images_per_second", "peak_fraction", "matrix_seconds"}
CLOCK |= {"wall_seconds", "cpu_seconds"}


def _left(workdir):
    """Returns all that commands have left in a folder, apart from what the clock says."""
    left = {}
    for path in sorted(workdir.rglob("*")):
        name = path.relative_to(workdir).as_posix()
        if path.name == "results.csv":
            table = pd.read_csv(path, dtype=str)
            left[name] = table.drop(columns=CLOCK.intersection(table)).to_dict("list")
        elif path.name in ("metrics.jsonl", "report.json") and path.parent.name != "reproduced":
            left[name] = path.read_text()
    return left


QUICK = "--config=configs/quickstart.py:quick"

# By name: the commands, of which the first is killed, with {} for the folder.
COMMANDS = {
    "run": [["launch.run", QUICK, "--workdir={}"]],
    "sweep": [["launch.sweep", QUICK, "--workdir={}"]],
    "reproduce": [
        ["launch.reproduce", "--paper=lsa", "--scale=quick", "--only=fig5_placements,lemmas"]
        + ["--workdir={}/reproduced"]
    ],
    "benchmark": [["launch.benchmark", "--suite=kernels", "--quick", "--json={}/rows.json"]],
}
FAMILIES = {
    **{f"lazy_rich/{n}": f"lazy_rich/{n}" for n in ("coordinate_check", "dial", "papers")},
    "lazy_rich/learning_rates": "lazy_rich/learning_rates",
    "lsa/activation_sparsity": "lsa/fig2_sparsity",
    "transformers": "transformers/fig4_1",
    "feature_learning/learning": "feature_learning/table1",
    "feature_learning/filter_clouds": "feature_learning/table7",
    "feature_learning/fixed_features": "feature_learning/fixed_features",
    "growing": "growing/small",
    "resnet/hierarchical": "resnet/fig2a",
    "lsa/image_examples": "lsa/fig5_placements",
    "feature_learning/input_structure": "feature_learning/structure_mnist",
    "lsa/kernel_bound": "lsa/theorem2",
    "lsa/lemmas": "lsa/lemmas",
    "resnet/minimal_norm": "resnet/fig4a",
    "lsa/noise_curves": "lsa/fig6_mnist",
    "lsa/signal_dynamics": "lsa/fig3_dynamics",
    "lsa/signal_scaling": "lsa/theorem1_scaling",
    "stability": "stability/fig2_1",
    "feature_learning/weight_clouds": "feature_learning/weights_mnist",
}


def test_every_experiment_has_its_drill():
    assert set(FAMILIES) == set(NAMES)


def _drill(commands, tmp_path, seed, kills=3):
    """Runs commands undisturbed, then killed at random moments, and compares what they leave."""

    def filled(folder):
        (tmp_path / folder).mkdir(exist_ok=True)
        return [[part.format(tmp_path / folder) for part in command] for command in commands]

    # The first time programs are compiled, and kept for the next: that takes the longest.
    for folder in ("compiling", "whole"):
        seconds = [_finish(command, tmp_path / "log") for command in filled(folder)][0]
    log, killed = tmp_path / "killed.log", 0
    for share in np.random.default_rng(seed).uniform(0.2, 1.0, kills):
        process = _begin(filled("killed")[0], log)
        killed += DRILL["kill_after"](process.pid, share * seconds)
        process.wait()
    assert killed
    for command in filled("killed"):
        _finish(command, log)
    assert _left(tmp_path / "killed") == _left(tmp_path / "whole") != {}
    assert not list((tmp_path / "killed").rglob("*.partial"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "sweep", "reproduce"])
def test_a_command_killed_at_random_moments_ends_with_the_same_results(name, tmp_path):
    _drill(COMMANDS[name], tmp_path, seed=len(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_killed_at_random_moments_ends_with_the_same_results(name, tmp_path):
    config = f"--config=configs/{FAMILIES[name]}.py:quick"
    _drill([["launch.sweep", config, "--workdir={}"]], tmp_path, seed=NAMES.index(name), kills=2)


@pytest.mark.slow
def test_groups_and_reports_killed_at_random_moments_end_with_the_same_results(tmp_path):
    whole, workdir, log = tmp_path / "whole", tmp_path / "killed", tmp_path / "log"
    groups = ["launch.groups", f"--workdir={workdir}", "--groups=0,1,2,3,4,5"]
    report = ["launch.report", f"--workdir={workdir}"]
    _finish(["launch.sweep", QUICK, f"--workdir={whole}"], log)
    workdir.mkdir()
    shutil.copy(whole / "config.json", workdir)
    random = np.random.default_rng(0)
    for command, longest in ((groups, 15.0), (report, 4.0)):
        for seconds in random.uniform(1.0, longest, 3):
            process = _begin(command, log)
            DRILL["kill_after"](process.pid, seconds)
            process.wait()
        _finish(command, log)
    assert _left(workdir) == _left(whole)
    assert not list(workdir.rglob("*.partial"))


@pytest.mark.slow
def test_a_benchmark_that_is_killed_leaves_whole_rows(tmp_path):
    (command,), rows = COMMANDS["benchmark"], tmp_path / "rows.json"
    command = [part.format(tmp_path) for part in command]
    seconds = _finish(command, tmp_path / "log")
    works = [row["work"] for row in json.loads(rows.read_text())]
    rows.unlink()
    for share in (0.5, 0.9):
        process = _begin(command, tmp_path / "log")
        DRILL["kill_after"](process.pid, share * seconds)
        process.wait()
        if rows.exists():
            found = [row["work"] for row in json.loads(rows.read_text())]
            assert found == works[: len(found)]
