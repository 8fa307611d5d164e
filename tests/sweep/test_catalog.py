"""What can be run is listed with its cost and data, and filtered by both."""

import json
import re
from pathlib import Path

import pytest

from lsa_jax.errors import InputError
from lsa_jax.reporting import gallery, machine, papers, reproduction
from lsa_jax.sweep import catalog, config_files, gallery_pages, registry

ROOT = Path(__file__).resolve().parents[2]
PAPER_PAGES = sorted((ROOT / "docs" / "papers").glob("*.md"))


@pytest.fixture(scope="module")
def found():
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        return catalog.entries(Path("configs"), gallery.read(Path("docs/gallery")))


def variant(found, config):
    return next(v for entry in found for v in entry.variants if v.config == config)


def test_every_configuration_is_listed_once_with_its_sizes(found):
    files = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "configs").rglob("*.py"))
    assert sorted(str(entry.path) for entry in found) == files
    for entry in found:
        assert [v.name for v in entry.variants][:3] == ["full", "small", "quick"]
        assert entry.item


def test_data_are_those_that_the_page_of_the_paper_names(found):
    rows = {
        row[1]: row[2]
        for page in PAPER_PAGES
        for row in re.finditer(r"^\| `(configs/\S+)` \|.*\| (.*?) \|$", page.read_text(), re.M)
    }
    for entry in found:
        if entry.paper != papers.BEYOND:
            told = {name for name in re.findall(r"`([^`]+)`", rows[str(entry.path)])}
            assert told == set(entry.variants[0].data), entry.path


def test_no_field_that_names_a_data_set_is_overlooked():
    for experiment in registry.names():
        for name, field in registry.load_settings(experiment).fields.items():
            accepts = field.kind.accepts
            if accepts("cifar10") and not accepts("any other text"):
                assert name == "data.dataset", (experiment, name)
            if accepts("tiny_imagenet") and not accepts("any other text"):
                assert name in ("data.dataset", "data.injected"), (experiment, name)


def test_the_pages_of_the_gallery_are_what_its_records_make(found, tmp_path):
    """If not: python -m launch.reproduce --gallery=docs/gallery."""
    made = {path.name: path.read_text() for path in gallery_pages.write(tmp_path, found)}
    assert made == {path.name: path.read_text() for path in (ROOT / "docs/gallery").glob("*.md")}


def test_costs_and_status_are_those_of_the_records(found):
    quickstart = variant(found, "configs/quickstart.py")
    record = json.loads((ROOT / "docs/gallery/beyond/quickstart.json").read_text())["sweep"]
    took = max(record["wall_seconds"], record["run_seconds"])
    assert quickstart.seconds == took > 60
    least = "at least " if record["partly_timed"] else ""
    assert quickstart.cost == f"{least}{machine.duration(took)} on 2 cores"
    assert quickstart.published.status == reproduction.counts(record["claims"])
    assert variant(found, "configs/quickstart.py:small").cost == "not published"
    assert variant(found, "configs/quickstart.py:quick").seconds is None


def test_a_least_cost_is_told_as_such_and_gone_by(found):
    quickstart = variant(found, "configs/quickstart.py")
    for partly in (True, False):
        sweep = quickstart.published.sweep._replace(partly_timed=partly)
        one = quickstart._replace(published=quickstart.published._replace(sweep=sweep))
        assert one.cost.startswith("at least ") == partly and one.seconds == quickstart.seconds


def sizes(found, **wish):
    chosen = catalog.matching(found, catalog.Wish(**wish))
    return {variant.config for entry in chosen for variant in entry.variants}


def test_what_takes_longer_or_an_unknown_time_is_left_out(found):
    took = variant(found, "configs/quickstart.py").seconds
    assert "configs/quickstart.py" in sizes(found, under=took)
    assert "configs/quickstart.py" not in sizes(found, under=took - 1)
    assert "configs/quickstart.py:small" not in sizes(found, under=1e9)  # not published


def test_what_needs_other_data_is_left_out(found):
    none, mnist = sizes(found, data=frozenset()), sizes(found, data=frozenset({"mnist"}))
    assert "configs/quickstart.py" in none and "configs/lsa/fig6_mnist.py" not in none
    assert "configs/lsa/fig6_mnist.py" in mnist and none < mnist
    assert not any("cifar" in config for config in mnist if "quick" not in config)


def test_words_are_looked_for_at_their_beginnings(found):
    shown = sizes(found, shows=("stack", "adaptive"))
    assert {config.partition(":")[0] for config in shown} == {"configs/growing/table_c2.py"}
    assert not sizes(found, shows=("tack",))


def test_data_of_a_point_and_folders_of_ones_own_count():
    module = config_files.load(ROOT / "configs" / "quickstart.py")
    config = module.get_config()
    assert catalog.needed_data(config, [{}]) == ()
    swept = [{"data.dataset": "folder", "data.folder": "birds"}, {"data.dataset": "svhn"}]
    assert catalog.needed_data(config, swept) == ("birds/", "svhn")


def test_unknown_data_are_refused(found):
    assert catalog.check_data(["none"], found) == frozenset()
    with pytest.raises(InputError, match="--data has 'mnst'; accepted: none, or of .*mnist"):
        catalog.check_data(["mnst"], found)


@pytest.mark.parametrize("spent", [0, 27, 59, 60, 380, 3599, 7500])
def test_a_time_is_read_as_it_is_written(spent):
    assert machine.seconds(machine.duration(spent)) == spent


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1h30min", 5400),
        ("10min", 600),
        ("1.5 h", 5400),
        ("at least 3 min", None),
        ("10 minutes", None),
        ("", None),
        ("the same run", None),
        ("10 min or so", None),
    ],
)
def test_times_are_read_and_other_words_are_not(text, expected):
    assert machine.seconds(text) == expected


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("configs/fig6_mnist.py", "configs/lsa/fig6_mnist.py"),
        ("configs/lsa/fig6.py", "configs/lsa/fig6_mnist.py"),
        ("configs/quikstart.py", "configs/quickstart.py"),
        ("configs/lsa/lemma", "configs/lsa/lemmas.py"),
    ],
)
def test_the_nearest_configuration_is_suggested(given, meant, found):
    assert config_files.nearest(Path(given), [e.path for e in found])[0] == Path(meant)


def test_a_name_like_no_other_suggests_none(found):
    assert config_files.nearest(Path("configs/zzz.py"), [entry.path for entry in found]) == []
