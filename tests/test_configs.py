"""Every configuration offers its variants, and its docstring says what it is."""

import importlib.util
import re
from pathlib import Path

import pytest

from lsa_jax.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
PATHS = sorted((ROOT / "configs").rglob("*.py"))


def load(path):
    spec = importlib.util.spec_from_file_location("config", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_docstrings_give_the_command(path):
    relative = path.relative_to(ROOT)
    assert f"python -m launch.sweep --config={relative}" in load(path).__doc__


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_docstrings_leave_results_and_measured_costs_to_the_gallery(path):
    told = r"±|\+-|\bcame out\b|processor time|\d (s|min|minutes) (on|of|in)\b|^(Result|Cost)\b"
    assert not re.search(told, load(path).__doc__, re.M)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_an_unknown_variant_names_the_accepted_ones(path):
    with pytest.raises(InputError, match="'huge'; accepted after the colon: full, small, quick"):
        load(path).get_config("huge")
