"""Recipes of containers install extras of setup.cfg, and workers start as the pages write it."""

import configparser
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "launching"
PAGE = "\n".join((PAGES / name).read_text() for name in ("containers.md", "dask.md"))


def _extras():
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return set(parser["options.extras_require"])


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
