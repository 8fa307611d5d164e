"""Configurations name their command, and equal those in tests/golden/ with all defaults.

An experiment has one file: its defaults, then of each configuration the fields that differ from
them and of each smaller size the fields that differ from the full one. A change that is meant is
written there by `pytest tests/test_golden.py --update-golden`.
"""

import functools
import re
import textwrap
from pathlib import Path

import pytest

from lsa_jax.errors import InputError
from lsa_jax.sweep import config_files
from lsa_jax.sweep.fields import experiment_names, flatten, load_settings
from lsa_jax.sweep.points import make_points

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = Path(__file__).parent / "golden"
# The gallery has them.
_RESULTS = r"±|\+-|\bcame out\b|processor time|\d (s|min|minutes) (on|of|in)\b|^(Result|Cost)\b"


@functools.cache
def configurations() -> dict:
    """Returns the module of every configuration, by path."""
    return {path: config_files.load(path) for path in sorted((ROOT / "configs").rglob("*.py"))}


def _changes(fields: dict, others: dict) -> str:
    """Returns the fields that differ from, or are missing in, other fields."""
    changed = [
        f"{name} = {value!r}"
        for name, value in sorted(fields.items())
        if name not in others or others[name] != value or type(others[name]) is not type(value)
    ]
    text = "; ".join(changed)
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _some_of(sweep: list[dict]) -> list[dict]:
    """Returns the points of a sweep that are the first with a value of a setting, and the last."""
    chosen, seen = [], set()
    for point in sweep:
        values = set(map(repr, point.items()))
        if not values <= seen or not chosen or point is sweep[-1]:
            chosen.append(point)
        seen |= values
    return chosen


def _configuration(path: Path, module, defaults: dict) -> list[str]:
    paragraphs, before = [], defaults
    for variant in config_files.variants(module):
        config = module.get_config(variant)
        settings = load_settings(config.experiment)
        sweep = config_files.sweep_of(module, config)
        points = make_points(config, _some_of(sweep), settings.validate)
        fields = flatten(config)
        written = config_files.name(path.relative_to(ROOT), variant)
        paragraphs += [f"[{written}] {len(sweep)} points, {points[0].id} to {points[-1].id}"]
        paragraphs += [_changes(fields, before)]
        before = fields if variant == "full" else before
    return paragraphs


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """The expected contents of tests/golden/, by experiment."""
    lines: dict[str, list[str]] = {}
    for path, module in configurations().items():
        experiment = module.get_config("full").experiment
        defaults = flatten(load_settings(experiment).default_config())
        lines.setdefault(experiment, ["[defaults]", _changes(defaults, {})])
        lines[experiment] += _configuration(path, module, defaults)
    return {
        experiment: "\n".join(filter(None, found)) + "\n" for experiment, found in lines.items()
    }


@pytest.mark.parametrize("experiment", experiment_names())
def test_defaults_and_configurations_are_as_they_were_reviewed(experiment, texts, request):
    golden = (GOLDEN / experiment).with_suffix(".txt")
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(texts[experiment])
    assert golden.read_text() == texts[experiment]


def test_every_golden_text_has_its_experiment():
    found = {path.relative_to(GOLDEN).with_suffix("").as_posix() for path in GOLDEN.rglob("*.txt")}
    assert found == set(experiment_names())


def test_configurations_have_their_command_no_results_and_refuse_unknown_sizes():
    for path, module in configurations().items():
        command = f"python -m launch.sweep --config={path.relative_to(ROOT)}"
        assert command in module.__doc__ and not re.search(_RESULTS, module.__doc__, re.M), path
        with pytest.raises(InputError, match="full, small, quick"):
            module.get_config("huge")
