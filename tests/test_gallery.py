"""The gallery that is published: small, and marked where it is stale."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from lsa_jax.reporting import gallery
from lsa_jax.sweep import gallery_pages, publishing

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_figures_are_small_and_each_is_in_a_record():
    figures = {path for kind in ("svg", "png") for path in GALLERY.glob(f"*/*.{kind}")}
    assert figures and gallery.size(GALLERY) <= gallery.MOST_BYTES == 7_000_000
    assert max(path.stat().st_size for path in figures) <= gallery.MOST_PICTURE_BYTES == 80_000
    items = gallery.read(GALLERY).values()
    assert figures == {GALLERY / item.folder / name for item in items for name in item.pictures}


def test_what_it_keeps_of_a_sweep_is_what_its_record_was_made_from():
    items = [item for item in gallery.read(GALLERY).values() if item.results]
    kept_there = {path.name for path in GALLERY.glob("*/*.xz")}
    assert kept_there == {item.results for item in items}
    for item in items:
        kept = publishing.read_kept(GALLERY / item.folder / item.results)
        assert len(kept["record"]["sweep"]) == len(kept["runs"]) == item.sweep.runs
        seconds = sum(run["result"]["seconds"] for run in kept["runs"])
        assert seconds == pytest.approx(item.sweep.run_seconds, abs=0.051)  # rounded to tenths


def test_no_published_record_is_stale_and_the_build_marks_one_that_is(monkeypatch):
    records = gallery.read(GALLERY)
    changes = {c: publishing.changes(c, item.fingerprint) for c, item in records.items()}
    assert not {config: words for config, words in changes.items() if words}
    pytest.importorskip("markdown")
    hooks = load(ROOT / "docs" / "hooks.py")
    item = records["configs/quickstart.py"]
    page = SimpleNamespace(file=SimpleNamespace(src_uri="gallery/beyond.md"), meta={})
    text = f'a\n{gallery_pages.MARK.format(item.name)}\n<a href="lsa.md#b"><img src="a.svg">'

    def built(**changed):
        found = {"": item._replace(fingerprint=item.fingerprint | changed)}
        monkeypatch.setattr(hooks.gallery, "read", lambda place: found)
        return hooks.on_page_markdown(text, page, None, None).splitlines()

    assert built() == ["a", "", '<a href="../lsa/#b"><img src="../a.svg">']
    settings = item.fingerprint["settings"] | {"noise": 7.0}
    assert "the setting noise and the report" in built(settings=settings, report=0)[1]
