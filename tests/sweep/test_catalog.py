"""Configurations are listed with cost and data, and filtered by both."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.reporting import machine, papers, progress
from lsa_jax.sweep import catalog, gallery_pages

ROOT = Path(__file__).resolve().parents[2]
PAPER_PAGES = sorted((ROOT / "docs" / "papers").glob("*.md"))


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return catalog.entries(Path("configs"), Path("docs/gallery"))


def variant(found, config):
    return next(v for entry in found for v in entry.variants if v.config == config)


def test_every_configuration_is_listed_once_with_its_sizes_and_the_data_of_its_papers_page(found):
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "configs").rglob("*.py"))
    assert sorted(str(entry.path) for entry in found) == files
    rows = {
        row[1]: row[2]
        for page in PAPER_PAGES
        for row in re.finditer(r"^\| `(configs/\S+)` \|.*\| (.*?) \|$", page.read_text(), re.M)
    }
    for entry in found:
        assert [v.name for v in entry.variants][:3] == ["full", "small", "quick"] and entry.item
        if entry.paper != papers.BEYOND:
            named = set(re.findall(r"`([^`]+)`", rows[str(entry.path)]))
            assert named == set(entry.variants[0].data), entry.path


def test_the_pages_of_the_gallery_are_made_of_its_records(found, tmp_path):
    """If not: python -m launch.reproduce --gallery=docs/gallery."""
    place = ROOT / "docs" / "gallery"
    made = {path.relative_to(tmp_path) for path in gallery_pages.write(tmp_path, found)}
    assert made == {path.relative_to(place) for path in place.rglob("*.md")}
    assert all((tmp_path / path).read_text() == (place / path).read_text() for path in made)
    headings = [(place / path).read_text().partition("\n")[0] for path in made]
    assert len(set(headings)) == len(headings)


def test_sizes_are_chosen_by_cost_data_and_words(found):
    def sizes(**wish):
        chosen = catalog.matching(found, **wish)
        return {variant.config for entry in chosen for variant in entry.variants}

    took = variant(found, "configs/quickstart.py").seconds
    assert "configs/quickstart.py" in sizes(under=took)
    assert "configs/quickstart.py" not in sizes(under=took - 1)
    assert "configs/feature_learning/tiny_svhn.py" not in sizes(under=1e9)  # no data, no estimate
    none, mnist = sizes(data=frozenset()), sizes(data=frozenset({"mnist"}))
    assert "configs/quickstart.py" in none and "configs/lsa/fig6_mnist.py" not in none
    assert "configs/lsa/fig6_mnist.py" in mnist and none < mnist
    assert not any("cifar" in config for config in mnist if "quick" not in config)
    shown = sizes(shows=("stack", "adaptive"))
    assert {config.partition(":")[0] for config in shown} == {"configs/growing/table_c2.py"}
    assert not sizes(shows=("tack",))
    assert catalog.check_data(["none"], found) == frozenset()
    with pytest.raises(InputError, match="'mnst'.*mnist"):
        catalog.check_data(["mnst"], found)


def printed_progress(capsys, done, spent):
    """Returns the lines of a sweep that has done a share of its points in some seconds."""
    clock = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress.time, "monotonic", lambda: clock[0])
        with progress.Progress(100, interval=0.0) as bar:
            for share in np.linspace(0.0, done, 50):
                clock[0] = spent * share / done
                bar.advance_to(100 * share, "")
    return capsys.readouterr().err


@pytest.mark.parametrize("done", [0.02, 0.4])
@pytest.mark.parametrize("spent", [30, 4000])
def test_a_whole_sweep_is_estimated_from_its_last_line_of_progress(
    done, spent, found, tmp_path, monkeypatch, capsys
):
    text = printed_progress(capsys, done, spent)

    def killed(words, timeout, **options):
        raise subprocess.TimeoutExpired(words, timeout, stderr=text.encode())

    monkeypatch.setattr(catalog.subprocess, "run", killed)
    monkeypatch.setattr(catalog.machine, "count_cores", lambda: 2)
    small = variant(found, "configs/quickstart.py:small")
    estimate = catalog.measure(small, 90.0, None, tmp_path)
    assert estimate.seconds == pytest.approx(spent / done, rel=0.1)
    assert catalog.estimates(tmp_path) == {small.config: estimate}
    known = small._replace(published=None, estimate=estimate)
    assert known.seconds == estimate.seconds and known.cost.startswith("about ")


@pytest.mark.parametrize(
    ("status", "printed", "seconds", "missing"),
    [(0, "", 0, False), (2, "error: missing data: svhn", None, True), (2, "error: x", 0, None)],
)
def test_a_sweep_that_ends_is_measured_as_it_is(
    status, printed, seconds, missing, found, tmp_path, monkeypatch
):
    def ended(words, **options):
        return subprocess.CompletedProcess(words, status, b"", printed.encode())

    monkeypatch.setattr(catalog.subprocess, "run", ended)
    small = variant(found, "configs/quickstart.py:small")
    if missing is None:
        with pytest.raises(InputError, match="fails: error: x"):
            catalog.measure(small, 1.0, None, tmp_path)
        assert not catalog.estimates(tmp_path)
        return
    estimate = catalog.measure(small, 1.0, Path("data"), tmp_path)
    assert estimate.missing == missing and (estimate.seconds is None) == (seconds is None)


@pytest.mark.parametrize("spent", [0, 27, 59, 60, 380, 3599, 7500])
def test_a_time_is_read_as_it_is_written(spent):
    assert machine.seconds(machine.duration(spent)) == spent
