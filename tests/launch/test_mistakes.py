"""Every mistake costs one line that names it, exit status 2, and leaves nothing on disk."""

import importlib.util
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lsa_jax import user_files

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = "--config=configs/quickstart.py"
LONG = 300 * "x"


@pytest.fixture
def sweep(refused, tmp_path):
    """Runs a sweep that is refused and writes nothing, and returns the line."""

    def run(*arguments, script="sweep", config=QUICKSTART, **environment):
        line = refused(script, config, f"--workdir={tmp_path / 'out'}", *arguments, **environment)
        assert not (tmp_path / "out").exists()
        return line

    return run


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--config.nois=1", ["config.nois", "config.noise"]),
        ("--config.noise", ["--config.noise=VALUE"]),
        ("--config.sweep.seed=[0, 1]", ["config.sweep.seed", '"(0, 1)"']),
        ("--config.noise=0.5", ["--config.noise is 0.5", '--config.sweep.noise="(0.5,)"']),
        ("--config.experiment=growing_grass", ["config.experiment"]),
        ("--wrkdir=x", ["wrkdir", "workdir"]),
        (f"--data_dir={LONG}", [f"{LONG}: File name too long; accepted: "]),
    ],
)
def test_a_wrong_setting_or_flag_is_refused(sweep, argument, words):
    line = sweep(argument)
    assert all(word in line for word in words), line


CONFIGS = [
    ("configs/quickstart.py:huge", ["'huge'", "full", "quick"]),
    ("configs/quikstart.py", ["does not exist", "did you mean configs/quickstart.py?"]),
    ("lsa_jax/errors.py", ["no get_config"]),
    ("configs/lsa", ["'configs/lsa', a folder"]),
]


@pytest.mark.parametrize(("config", "words"), CONFIGS)
def test_a_wrong_configuration_file_is_refused(sweep, config, words):
    line = sweep(config=f"--config={config}")
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("body", "variant", "words"),
    [
        ("import nothing_of_this_name", "", ["ModuleNotFoundError"]),
        ("def get_config(): return None", "", ["returns None", "default_config()"]),
        ("def get_config(): return {}['seed']", "", ["KeyError", "'seed'"]),
    ],
)
def test_a_file_that_gives_no_configuration_is_refused(sweep, tmp_path, body, variant, words):
    (tmp_path / "mine.py").write_text(f"{body}\n")
    line = sweep(config=f"--config={tmp_path / 'mine.py'}{variant}")
    assert all(word in line for word in ["mine.py", *words]), line


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("config.nothing", ["get_sweep()", "AttributeError"]),
        ("None", ["get_sweep()", "NoneType", "a list of dictionaries"]),
        ("[{'seed': 0.5}]", ["'seed'", "0.5", "launch.show"]),
        ("[{'learner.x': 0}]", ["learner.x", "launch.show"]),
        # Both would be the column batch_size.
        ("[{'network.batch_size': 1, 'ntk_finite.batch_size': 2}]", ["last parts differ"]),
    ],
)
def test_a_file_whose_sweep_is_none_is_refused(sweep, tmp_path, returned, words):
    (tmp_path / "mine.py").write_text(
        "from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS\n"
        "get_config = SETTINGS.default_config\n"
        f"def get_sweep(config): return {returned}\n"
    )
    line = sweep(config=f"--config={tmp_path / 'mine.py'}")
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("script", "flags", "words"),
    [
        ("preflight", ["--efficiency=nan"], "--efficiency is nan"),
        ("preflight", ["--topology=cpu", "--json=.", QUICKSTART], "--json is '.'"),
        ("benchmark", ["--suite=kernels", "--only=lunch"], "--only is 'lunch'"),
        ("show", [QUICKSTART, "--flagfile=docs/quickstart.png"], "--flagfile is no text"),
        ("report", ["--workdir=LICENSE"], "config.json cannot be read: Not a directory"),
        ("slurm", ["--config=configs/lsa/[x]*.py", "--workdir=x", "--dry_run"], "no configuration"),
        ("slurm", [QUICKSTART, "--workdir=at_50%", "--dry_run"], "accepted: a path without %"),
        ("slurm", [QUICKSTART, r"--workdir=D:\runs", "--dry_run"], "accepted: a path without %"),
        ("slurm", [QUICKSTART, QUICKSTART, "--workdir=x", "--dry_run"], "each once"),
        ("groups", ["--workdir=nowhere", "--groups=0,x"], "--groups is '0,x'"),
        ("data", [], "--dataset is missing"),
        ("reproduce", ["--paper=lsa", "--workdir=x", "--only="], "--only is empty"),
        ("list", ["--under=soon"], "--under is 'soon'"),
        ("show", [QUICKSTART, "--fields=dat"], "--fields has 'dat'"),
        ("run", [QUICKSTART, "--workdir=x", "--config.sweep.seed=(1,)"], "launch.sweep"),
        # A configuration that the command would ignore.
        ("report", ["--config.noise=2"], "--config.noise=2 is given to a command that reads no"),
    ],
)
def test_other_commands_refuse_their_flags(refused, script, flags, words):
    assert words in refused(script, *flags)


@pytest.mark.parametrize("source", ["--data_dir", "LSA_DATA_DIR"])
def test_a_data_folder_that_does_not_exist_is_refused(sweep, tmp_path, source):
    given = f"{tmp_path}/nowhere"
    flags = [f"{source}={given}"] if source.startswith("--") else []
    environment = {} if flags else {source: given}
    assert f"{source} is '{given}'" in sweep(*flags, **environment)


def test_missing_damaged_and_too_few_data_are_named(sweep, tmp_path):
    data, mnist = tmp_path / "data", "--config=configs/lsa/fig6_mnist.py"
    data.mkdir()
    line = sweep(f"--data_dir={data}", script="run", config=mnist)
    # launch.reproduce recognises missing data by these words.
    assert line.startswith(f"error: missing data: {data}") and "launch.data --dataset=mnist" in line
    (data / "mnist").mkdir()
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (data / "mnist" / f"{name}-ubyte").write_bytes(b"\0\0\x08\x07" + bytes(60))
    assert "train-images-idx3-ubyte" in sweep(f"--data_dir={data}", script="run", config=mnist)
    assert "99999" in sweep("--config.data.num_train=99999", script="run")


@pytest.mark.parametrize(
    ("below", "config", "words"),
    [
        ("", "own_images.py:quick --config.data.folder=cats", "did you mean Cats?"),
        ("/Cats/tom", "own_images.py:quick --config.data.folder=Cats", "--data_dir={data}"),
        ("/mnist", "lsa/fig6_mnist.py:quick", "--data_dir={data}"),
        ("/../apart", "lsa/fig6_mnist.py:quick", "in a folder mnist"),
    ],
)
def test_a_data_folder_next_to_the_right_one_is_named(sweep, tmp_path, below, config, words):
    data, mnist = tmp_path / "data", "train-images-idx3-ubyte"
    for name in (f"mnist/{mnist}", f"../apart/{mnist}", "Cats/tom/0.png", "Cats/tim/0.png"):
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(b"x")
    name, *fields = config.split()
    line = sweep(*fields, f"--data_dir={data}{below}", config=f"--config=configs/{name}")
    assert words.format(data=data) in line


def test_a_folder_for_results_that_holds_something_else_stays_as_it_is(refused, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    assert "no config.json" in refused("sweep", QUICKSTART, f"--workdir={tmp_path}")
    for below in ("thesis.tex", "thesis.tex/below"):
        assert below in refused("sweep", QUICKSTART, f"--workdir={tmp_path / below}")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.skipif(importlib.util.find_spec("wandb") is not None, reason="wandb is installed")
def test_a_log_without_its_library_is_refused(sweep):
    assert "--wandb=digits needs wandb" in sweep("--wandb=digits", script="run")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_output_that_cannot_be_written_costs_one_line():
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "launch.show", QUICKSTART],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 2
    assert re.fullmatch("error: output cannot be written: No space left .*\n", ended.stderr)


def test_what_was_printed_before_a_file_cannot_be_read_is_kept():
    script = """
from launch import _cli

def main():
    print("a table")
    open("nowhere")

_cli.run(main)
"""
    buffered = {n: value for n, value in os.environ.items() if n != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", script]
    options = {"cwd": ROOT, "env": buffered, "capture_output": True, "text": True}
    ended = subprocess.run(command, **options, check=False)
    assert (ended.returncode, ended.stdout) == (2, "a table\n")
    assert ended.stderr.startswith("error: nowhere: No such file")


def test_closed_streams_are_as_a_file_that_keeps_nothing(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    user_files.prepare_streams()
    with sys.stdin, sys.stdout, sys.stderr:
        print("lost", file=sys.stderr, flush=True)
        assert not sys.stdout.isatty() and sys.stdin.read() == ""


@pytest.mark.parametrize(
    "encoding, expected", [("utf-8", "± ▁ caf\udce9"), ("latin-1", "± ? caf?")]
)
def test_names_of_files_and_signs_are_printed_as_the_output_has_them(
    encoding, expected, monkeypatch
):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding=encoding))
    user_files.prepare_streams()
    print("± ▁", os.fsdecode(b"caf\xe9"), flush=True)
    assert printed.getvalue() == f"{expected}\n".encode(encoding, "surrogateescape")
