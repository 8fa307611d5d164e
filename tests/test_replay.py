"""Published claims equal today's decisions on the kept results."""

import json
from pathlib import Path

import pytest

from lsa_jax.reporting import files, gallery
from lsa_jax.sweep import publishing, run
from lsa_jax.sweep.points import recorded_points

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"
RECORDS = {item.name: item for item in gallery.read(GALLERY).values() if item.results}
# Rows are compared in these; notes and other wording may change.
COMPARED = ("item", "paper", "ours", "status", "low", "high", "primary", "holm")


def replayed(item, folder):
    """Returns the rows of a kept sweep's claims, decided anew."""
    publishing.unpack(GALLERY / item.folder / item.results, folder)
    config, points = recorded_points(folder)
    results = files.read_results(folder, [point.id for point in points])
    return run.make_report(config, points, results, folder).claims


@pytest.mark.parametrize("name", RECORDS)
def test_claims_of_a_record_are_decided_as_published(name, tmp_path):
    rows = json.loads(json.dumps([row._asdict() for row in replayed(RECORDS[name], tmp_path)]))
    published = RECORDS[name].sweep.claims
    assert [{key: row[key] for key in COMPARED} for row in rows] == [
        {key: row.get(key) for key in COMPARED} for row in published
    ], (
        "The code decides these claims differently. If that is intended, raise report_version "
        "of the experiment and run: python -m launch.reproduce --gallery=docs/gallery"
    )
