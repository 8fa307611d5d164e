"""The gallery that is published: small, marked where it is stale, and whole in a browser."""

import functools
import http.server
import importlib.util
import shutil
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from lsa_jax.reporting import gallery, papers
from lsa_jax.sweep import gallery_pages, publishing

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"
PAGES = ["index", "figures", *papers.PAPERS]
PAGES += sorted({f"{i.folder}/{i.configuration.stem}" for i in gallery.read(GALLERY).values()})


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


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Returns the folder and the address of the documentation as it is built."""
    if not browser.CHROMIUM:
        pytest.skip("no chromium")
    if not shutil.which("mkdocs"):
        pytest.skip("needs pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = ["mkdocs", "build", "--strict", "--quiet", f"--site-dir={folder}"]
    subprocess.run(command, cwd=ROOT, check=True)
    handler = functools.partial(_Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_every_figure_table_and_path_whole(site, page, width, tmp_path):
    folder, address = site
    place = "gallery" if page == "index" else f"gallery/{page}"
    seen = browser.look(folder, address, f"{place}/", width, tmp_path)
    assert seen["broken"] == [] and seen["split"] == [] and seen["dead"] == []
    assert seen["width"] <= width and seen["wide"] == []
    items = [i for i in gallery.read(GALLERY).values() if i.name.partition("-")[0] == page]
    if items:
        assert seen["images"] == sum(len(item.pictures) for item in items)
    assert seen["height"] < 6 * 1000 or width < 1280  # six screens


@pytest.mark.slow
def test_the_choices_leave_the_cards_that_all_of_them_accept(site, tmp_path):
    folder, address = site
    title = papers.PAPERS["resnet"].title
    choose = f"""const [paper, status] = d.querySelectorAll(".gallery-filter select");
    paper.value = "{title}"; status.value = "shown";
    status.dispatchEvent(new Event("change", {{bubbles: true}}));"""
    seen = browser.look(folder, address, "gallery/figures/", 1280, tmp_path, choose)
    assert seen["cards"] and all(card["paper"] == title for card in seen["cards"])
    assert all("shown" in card["status"].split("|") for card in seen["cards"])


@pytest.mark.slow
def test_a_browser_sees_what_is_broken(site, tmp_path):
    folder, address = site
    spoil = """d.querySelector("article").insertAdjacentHTML("beforeend", `<img src="none.svg">
    <table style="min-width: 500px"><tr><td>wide</td></tr></table><a href="none/">dead</a>
    <p style="width: 50px; word-break: break-all">configs/transformers.py</p>`);"""
    seen = browser.look(folder, address, "gallery/beyond/", 390, tmp_path, spoil)
    assert seen["broken"] == ["none.svg"] and len(seen["wide"]) == 1
    assert "transformers" in seen["split"] and seen["dead"] == [f"{address}/gallery/beyond/none/"]
