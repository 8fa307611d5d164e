"""What the README shows, runs."""

import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
CONFIGS = sorted(set(re.findall(r"configs/[\w/]+\.py", README)))


def _blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_python_blocks_run_in_order_and_learn(capsys):
    namespace = {}
    for block in _blocks("python"):
        exec(compile(block, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out.splitlines()
    accuracies = [float(line.split()[-1]) for line in printed]
    assert len(accuracies) == 3 and np.min(accuracies) > 0.7


@pytest.mark.parametrize("path", CONFIGS)
def test_every_configuration_that_is_named_exists(path):
    assert (ROOT / path).is_file()


def test_every_configuration_is_named():
    assert CONFIGS == sorted(str(p.relative_to(ROOT)) for p in (ROOT / "configs").rglob("*.py"))


def test_linked_files_exist():
    for target in re.findall(r"\]\(([\w/.]+)\)", README):
        assert (ROOT / target).is_file(), target


def test_how_to_add_things_takes_under_twenty_lines_each():
    definitions = [
        re.search(r"^def .*?(?=\n\n\n|\Z)", block, re.MULTILINE | re.DOTALL)[0]
        for block in _blocks("python")
    ]
    assert len(definitions) == 4
    assert max(len(definition.splitlines()) for definition in definitions) < 20
