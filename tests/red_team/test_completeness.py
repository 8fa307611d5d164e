"""No experiment with a report goes without made-up results."""

from pathlib import Path

import pytest

import lsa_jax.experiments

ROOT = Path(lsa_jax.experiments.__file__).parent
REPORTS = sorted(path.parent.relative_to(ROOT) for path in ROOT.rglob("report.py"))
WRITTEN = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))


@pytest.mark.parametrize("folder", REPORTS, ids=str)
def test_every_report_is_held_against_made_up_results(folder):
    assert f"lsa_jax.experiments.{'.'.join(folder.parts)}" in WRITTEN
