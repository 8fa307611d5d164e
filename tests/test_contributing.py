"""Files and hooks that the page for contributors names exist."""

import configparser
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
EXTEND = (ROOT / "docs" / "extend.md").read_text()
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]


def test_files_that_contributors_are_sent_to_exist():
    (figures,) = re.findall(r"## A change to a figure(.*?)\n## ", EXTEND, re.DOTALL)
    paths = re.findall(r"[`(\s]((?:tests|docs|lsa_jax|configs|\.ci)/[\w/.]+)", PAGE + figures)
    paths = [path for path in paths if not re.search("PAPER|ROOM", path)]
    assert len(paths) > 15
    for path in paths:
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_hooks_pass_on_what_is_committed(hook):
    """Ruff's are given two files; the contracts look at everything by themselves."""
    entry = shlex.split(hook["entry"].replace(" --fix", ""))
    entry[0] = str(Path(sys.executable).with_name(entry[0]))
    given = ["launch/list.py", "setup.py"] if hook.get("pass_filenames", True) else []
    result = subprocess.run([*entry, *given], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
