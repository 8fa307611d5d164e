"""Files, hooks and versions that the page for contributors names exist."""

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
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())


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


def test_ci_runs_the_oldest_and_the_newest_versions_that_are_accepted():
    tests = WORKFLOW["jobs"]["tests"]
    versions = [(row["python"], row["jax"]) for row in tests["strategy"]["matrix"]["include"]]
    pythons = re.findall(r"Python :: (3\.\d+)$", SETUP["metadata"]["classifiers"], re.M)
    oldest, below = re.search(
        r"^jax>=0\.(\d+),<0\.(\d+)$", SETUP["options"]["install_requires"], re.M
    ).groups()
    assert versions == [(pythons[0], f"0.{oldest}"), (pythons[-1], f"0.{int(below) - 1}")]
    assert any(step.get("run") == "bash .ci/run" for step in tests["steps"])
    constrained = [step["run"] for step in tests["steps"] if "constraints" in step.get("run", "")]
    assert constrained[0] == 'echo "jax==${{ matrix.jax }}.*" > "$RUNNER_TEMP/constraints.txt"'
    assert "--resolution ${{ matrix.resolution }}" in constrained[1]
    resolutions = [row["resolution"] for row in tests["strategy"]["matrix"]["include"]]
    assert resolutions == ["lowest-direct", "highest"]


def test_pythons_that_are_named_are_those_that_are_accepted():
    pythons = re.findall(r"Python :: 3\.(\d+)$", SETUP["metadata"]["classifiers"], re.M)
    assert SETUP["options"]["python_requires"] == f">=3.{pythons[0]}, <3.{int(pythons[-1]) + 1}"
    assert re.search(
        rf"Python 3\.{pythons[0]} .*to 3\.{pythons[-1]}", (ROOT / "README.md").read_text()
    )
