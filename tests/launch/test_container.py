"""Recipes of containers install extras of setup.cfg."""

import configparser
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/launching/containers.md").read_text()


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
