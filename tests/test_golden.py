"""Every configuration in every variant is what tests/golden/ says, so a changed default shows.

A change that is meant is written there by `pytest tests/test_golden.py --update-golden`.
"""

import importlib.util
from pathlib import Path

import pytest

from lsa_jax.errors import InputError
from lsa_jax.sweep.fields import flatten
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.registry import load_settings

ROOT = Path(__file__).resolve().parents[1]
CONFIGS = ROOT / "configs"
GOLDEN = Path(__file__).parent / "golden"
PATHS = sorted(CONFIGS.rglob("*.py"))


def _load(path):
    spec = importlib.util.spec_from_file_location("config", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _variants(module) -> list[str]:
    """Returns the variants that a configuration names to whom asks for another one."""
    with pytest.raises(InputError) as raised:
        module.get_config("?")
    return str(raised.value).rpartition(": ")[2].split(", ")


def _lines(module, variant: str) -> list[str]:
    config = module.get_config(variant)
    settings = load_settings(config.experiment)
    get_sweep = getattr(module, "get_sweep", settings.sweep)
    points = make_points(config, get_sweep(config), settings.validate)
    assert points
    fields = [f"{name} = {value!r}" for name, value in sorted(flatten(config).items())]
    return [*fields, f"points: {len(points)}, {points[0].id} to {points[-1].id}"]


def _flattened(path: Path) -> str:
    """Returns the full configuration line by line, and of each variant the lines that differ."""
    module = _load(path)
    full = _lines(module, "full")
    text = ["[full]", *full]
    for variant in _variants(module):
        if variant != "full":
            changed = [line for line in _lines(module, variant) if line not in full]
            text += ["", f"[{variant}]", *changed]
    return "\n".join(text) + "\n"


def _golden(path: Path) -> Path:
    return (GOLDEN / path.relative_to(CONFIGS)).with_suffix(".txt")


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.relative_to(CONFIGS).as_posix())
def test_configurations_are_as_they_were_reviewed(path, request):
    golden, found = _golden(path), _flattened(path)
    if request.config.getoption("--update-golden"):
        golden.parent.mkdir(parents=True, exist_ok=True)
        golden.write_text(found)
    assert golden.read_text() == found


def test_every_golden_text_has_its_configuration():
    assert sorted(GOLDEN.rglob("*.txt")) == sorted(map(_golden, PATHS))
