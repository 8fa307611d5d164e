"""The gallery that is published: small, marked where it is stale, and whole in a browser."""

import importlib.util
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from lsa_jax.reporting import gallery, papers
from lsa_jax.sweep import gallery_pages, publishing

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


browser = load(ROOT / "tests" / "reporting" / "browser.py")


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


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Returns the server of the documentation as it is built."""
    if not browser.CHROMIUM:
        pytest.skip("no chromium")
    if not shutil.which("mkdocs"):
        pytest.skip("needs pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = ["mkdocs", "build", "--strict", "--quiet", f"--site-dir={folder}"]
    subprocess.run(command, cwd=ROOT, check=True)
    with browser.serve(folder) as server:
        yield server


@pytest.mark.slow
def test_a_browser_shows_every_page_whole(site, tmp_path):
    pages = [page.parent.relative_to(site.folder) for page in site.folder.rglob("index.html")]
    seen = browser.look(site, [f"{page}/" for page in sorted(pages)], [390, 1280], tmp_path)
    items = gallery.read(GALLERY).values()
    pictures = Counter(
        f"gallery/{item.folder}/{item.configuration.stem}/" for item in items for _ in item.pictures
    )
    assert pictures.keys() < seen.keys()
    for page, found in seen.items():
        assert found["broken"] == found["dead"] == [], page
        assert found["repeated"] == [] or page.startswith("api/"), page  # methods of classes
        assert found["images"] == pictures.get(page, found["images"]), page
        for width in (390, 1280):
            at = found[str(width)]
            assert at["width"] <= width and at["wide"] == at["split"] == [], (page, width, at)
        assert at["clipped"] == [], page
        assert at["height"] < 6 * 1000 or not page.startswith("gallery/"), page  # six screens


@pytest.mark.slow
def test_the_choices_leave_the_cards_that_all_of_them_accept(site, tmp_path):
    title, page = papers.PAPERS["resnet"].title, "gallery/figures/"
    choose = f"""const [paper, status] = d.querySelectorAll(".gallery-filter select");
    paper.value = "{title}"; status.value = "shown";
    status.dispatchEvent(new Event("change", {{bubbles: true}}));"""
    cards = browser.look(site, [page], [1280], tmp_path, choose)[page]["cards"]
    assert cards and all(card["paper"] == title for card in cards)
    assert all("shown" in card["status"].split("|") for card in cards)


@pytest.mark.slow
def test_the_search_finds_the_page_of_its_words_first(site, tmp_path):
    expected = {
        "Table 1": "gallery/feature_learning/table1/",
        "Figure 6": "gallery/lsa/fig6_mnist/",
        "NTK after training": "concepts/trained_kernels/",
        "own images": "running/own_images/",
        "diagnose": "diagnose/",
    }
    wait = """while (!d.querySelector(".md-search-result__item"))
      await new Promise((done) => setTimeout(done, 100));"""
    asked = {f"notation/?q={words}": page for words, page in expected.items()}
    seen = browser.look(site, list(asked), [1280], tmp_path, wait)
    for search, page in asked.items():
        assert page in seen[search]["found"][0]


@pytest.mark.slow
def test_a_browser_sees_what_is_broken(site, tmp_path):
    spoil = """d.querySelector("article").insertAdjacentHTML("beforeend", `<img src="none.svg">
    <table style="min-width: 500px"><tr><td>wide</td></tr></table><a href="none/">dead</a>
    <p style="width: 50px; word-break: break-all">configs/transformers.py</p><h2>Twice</h2>
    <h2>Twice</h2><pre><code>${"long ".repeat(99)}</code></pre>`);"""
    seen = browser.look(site, ["gallery/beyond/"], [390], tmp_path, spoil)["gallery/beyond/"]
    assert seen["broken"] == ["none.svg"] and seen["repeated"] == ["Twice"]
    assert [link.endswith("/gallery/beyond/none/") for link in seen["dead"]] == [True]
    at = seen["390"]
    assert len(at["wide"]) == len(at["clipped"]) == 1 and "transformers" in at["split"]
