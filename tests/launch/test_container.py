"""Recipes of containers install extras of setup.cfg, with a syntax that their tools accept."""

import configparser
import re
import shlex
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "launch" / "container"


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
