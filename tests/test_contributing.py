"""Files and hooks that the page for contributors names exist."""

import configparser
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
EXTEND = (ROOT / "docs" / "extend.md").read_text()
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")


def test_files_that_contributors_are_sent_to_exist():
    (figures,) = re.findall(r"## A change to a figure(.*?)\n## ", EXTEND, re.DOTALL)
    paths = re.findall(r"[`(\s]((?:tests|docs|lsa_jax|configs|\.ci)/[\w/.]+)", PAGE + figures)
    paths = [path for path in paths if not re.search("PAPER|ROOM", path)]
    assert len(paths) > 15
    for path in paths:
        assert (ROOT / path).exists(), path
