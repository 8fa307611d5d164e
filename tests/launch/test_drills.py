"""Kills, full disks and damaged files lose nothing, and one line has the way out.

For the parts that all experiments share, with a sweep of a second (drilled_sweep.py).
"""

import itertools
import os
import re
import resource
import runpy
import shutil
import time
from pathlib import Path

import jax
import pytest

from lsa_jax.errors import DamageWarning, InputError, StorageError

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


def test_a_limit_of_files_is_one_line_and_costs_nothing_but_time(whole, tmp_path):
    """As a quota or a full disk has it, without root."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Compiled programs are not to be kept: jax warns where it cannot.
    name = "jax_persistent_cache_min_compile_time_secs"
    kept = getattr(jax.config, name)
    jax.config.update(name, 1e9)
    try:
        for size in (400, 30_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            with pytest.raises(StorageError, match=r"cannot be written \([\d,]+ bytes\)") as error:
                sweep(tmp_path)
            assert _one_line(error).startswith(f"{tmp_path}/")
            assert not (tmp_path / "results.csv").exists()
            assert not list(tmp_path.rglob("*.partial"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        jax.config.update(name, kept)
    sweep(tmp_path)
    assert content(tmp_path) == content(whole)


def _newest(workdir):
    return workdir / "groups" / SECOND_GROUP / "network" / "step_00000004.npz"


def _flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _cut(path):
    os.truncate(path, path.stat().st_size // 2)


def _damage_both(step):
    _flip(step)
    _flip(step.with_name("step_00000003.npz"))


@pytest.mark.parametrize(
    ("damage", "instead"),
    [
        (_flip, ["goes on from step 3"]),
        (_cut, ["goes on from step 3"]),
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
