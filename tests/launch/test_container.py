"""Recipes of containers install extras of setup.cfg, and workers start as the pages write it."""

import ast
import configparser
import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "launch" / "container"
PAGES = ROOT / "docs" / "launching"
PAGE = "\n".join((PAGES / name).read_text() for name in ("containers.md", "dask.md"))


def _extras():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return set(parser["options.extras_require"])


def _docker():
    """Returns the instructions of the Dockerfile: (name, rest)."""
    text = re.sub(r"\\\n\s*", " ", (FOLDER / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(" ", 1)) for line in lines]


def test_the_dockerfile_has_known_instructions_and_arguments_that_are_defined():
    names = [name for name, _ in _docker()]
    assert names[0] == "FROM" and names.count("FROM") == 1
    assert set(names) <= {"FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV"}
    defined = dict(rest.split("=") for name, rest in _docker() if name == "ARG")
    (run,) = (rest for name, rest in _docker() if name == "RUN")
    assert set(re.findall(r"\$\{(\w+)\}", run)) == set(defined)
    assert set(defined["EXTRAS"].split(",")) <= _extras()
    (install,) = _installed(run.replace("${EXTRAS}", "cuda,dask"))
    assert install[-1] == ".[cuda,dask]"


def _installed(script):
    """Returns the words of each pip of a script, by a shell that only prints."""
    printing = 'pip() { printf "%q " "$@"; echo; }\n'
    shell = ["sh", "-ec", printing.replace("%q", "%s") + script]
    printed = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    return [shlex.split(line) for line in printed.splitlines()]


@pytest.mark.parametrize("option", ["--build-arg=EXTRAS=", "--build-arg EXTRAS="])
def test_the_page_builds_with_extras_that_exist(option):
    (extras,) = re.findall(rf"{option}(\S+)", PAGE)
    assert set(extras.split(",")) <= _extras()
    for file in re.findall(r"launch/container/[\w.]+", PAGE):
        assert (ROOT / file).is_file()


def _parse_dask(name, options):
    """Returns the options of `dask scheduler` or `dask worker`; raises where one is not known."""
    pytest.importorskip("distributed", reason="needs pip install -e '.[dask]'")
    from distributed.cli import dask_scheduler, dask_worker

    command = {"scheduler": dask_scheduler, "worker": dask_worker}[name].main
    return command.make_context(name, options).params


def test_dask_has_the_options_of_the_page():
    found = re.findall(r"^dask (\w+) (.*?)(?: &)?$", PAGE, re.MULTILINE)
    options = {name: _parse_dask(name, shlex.split(words)) for name, words in found}
    files = {options[name]["scheduler_file"] for name in ("scheduler", "worker")}
    assert files == set(re.findall(r"launch.cluster --scheduler=(/\S+)", PAGE))
    assert (options["worker"]["nthreads"], options["worker"]["memory_limit"]) == (1, "0")


def test_the_jobs_that_the_page_submits_start_one_worker_of_one_thread_each():
    pbs = pytest.importorskip("dask_jobqueue.pbs", reason="needs pip install dask-jobqueue")
    (code,) = re.findall(r"```python\n(.*?PBSCluster.*?)```", PAGE, re.DOTALL)
    (call,) = (
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "PBSCluster"
    )
    given = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    script = pbs.PBSJob("tcp://10.0.0.1:8786", "worker", **given).job_script()
    (line,) = (line for line in script.splitlines() if "dask_worker" in line)
    options = _parse_dask("worker", shlex.split(line.partition("dask_worker ")[2]))
    assert (options["scheduler"], options["nthreads"]) == ("tcp://10.0.0.1:8786", 1)
    assert not options["nanny"] and options["memory_limit"] == "0"
    assert "#PBS -l select=1:ncpus=4:ngpus=1" in script
