"""Commands as tests of the launchers run them: in forks of a process that has done the imports."""

import os
import subprocess

import pytest
from absl import flags
from absl.testing import flagsaver

BARE = {"PATH": "", "HOME": "/nonexistent", "JAX_PLATFORMS": "cpu"}


@pytest.fixture(scope="session")
def launch(fork):
    """Runs `launch.SCRIPT ARGUMENTS` in the project's folder, and returns its output.

    A bare environment holds no LSA_DATA_DIR, PATH or home.
    """

    def run(script, *arguments, bare=True, **environment):
        given = (BARE if bare else os.environ) | environment
        ended = fork(script, *arguments, environment=given)
        return subprocess.CompletedProcess(arguments, *ended.wait())

    return run


@pytest.fixture(scope="session")
def refused(launch):
    """Runs a command that must end with status 2 and one line of error, and returns the line."""

    def run(*arguments, **environment):
        result = launch(*arguments, **environment)
        assert result.returncode == 2, result.stderr
        (line,) = result.stderr.strip().splitlines()
        assert line.startswith("error: ")
        return line

    return run


@pytest.fixture
def given():
    """Sets flags in this process, as a command line would."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    return flagsaver.flagsaver
