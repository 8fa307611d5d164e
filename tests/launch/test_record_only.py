"""What the page on other schedulers says: the record, then groups anywhere, then the report."""

import os

import pytest
from absl import flags
from absl.testing import flagsaver

from launch import sweep
from lsa_jax.errors import InputError

SWEEP = [
    "--config=configs/quickstart.py:quick",
    *("--config.sweep.learner=('ntk_infinite',)", "--config.sweep.noise=(0.0, 1.0)"),
    "--config.sweep.seed=(0,)",
]


@pytest.fixture
def launch(fork):
    def run(script, *arguments):
        status, said, errors = fork(script, *arguments, environment={**os.environ}).wait()
        assert status == 0, errors
        return said

    return run


def test_a_sweep_that_is_only_recorded_is_run_by_its_groups(launch, tmp_path):
    workdir = tmp_path / "out"
    told = launch("sweep", *SWEEP, f"--workdir={workdir}", "--record_only")
    assert told == f"{workdir}: 2 runs; groups that are missing: 0-1\n"
    assert (workdir / "config.json").exists() and not (workdir / "runs").exists()
    launch("groups", f"--workdir={workdir}", "--groups=0,1")
    assert "are missing" not in launch("report", f"--workdir={workdir}")
    assert len(list(workdir.glob("runs/*/result.json"))) == 2


def test_what_only_running_would_heed_is_refused():
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    for given in ({"tensorboard": True}, {"wandb": "p"}, {"distributed": True}, {"open": True}):
        (name,) = given
        with flagsaver.flagsaver(record_only=True, **given):
            with pytest.raises(InputError, match=f"accepted: without --{name}"):
                sweep._refuse_ignored()
        sweep._refuse_ignored()


def test_flags_of_several_processes_that_make_no_sense_are_refused_as_where_something_runs(
    monkeypatch,
):
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    monkeypatch.setattr(sweep._cli, "configured_points", lambda sweep: (None, []))
    monkeypatch.setattr(sweep, "_record", lambda *given: pytest.fail("it was recorded"))
    given = {"workdir": "out", "num_processes": 2, "process_id": 7}
    with flagsaver.flagsaver(record_only=True, **given):
        with pytest.raises(InputError, match="--num_processes is given without --distributed"):
            sweep.main()


def test_numbers_in_a_row_are_told_by_their_ends():
    assert sweep._ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert sweep._ranges([]) == "none"
