"""Finished sweeps come into the gallery as they are, once, and nothing else does."""

import lzma
from pathlib import Path

import pytest
from published_sweeps import finish, kept_of, publish, remake

from lsa_jax.errors import InputError
from lsa_jax.reporting import gallery, reproduction
from lsa_jax.sweep import fingerprints, publishing


def test_finished_sweeps_are_published_with_figures_claims_and_cost(place):
    lines, remade = publish(place)
    assert lines == [f"published configs/lsa/{name}.py:small" for name in "ab"]
    assert remade == ["a", "b"]
    found = gallery.read(place[0])
    assert list(found) == ["configs/lsa/a.py:small", "configs/lsa/b.py:small"]
    item = found["configs/lsa/a.py:small"]
    assert item.pictures == ["a-small.curve.svg"] and item.size == "small"
    # What it says of the machine's folders is not published.
    assert (item.sweep.command, item.sweep.pictures) == ("", [])
    assert (place[0] / "lsa" / item.pictures[0]).stat().st_size == gallery.size(place[0]) / 2
    assert item.sweep.claims[0]["low"] == 0.4 and item.seconds == 70
    assert item.cost == "1 min 10 s on 2 cores" and item.status == "0 of 1 shown, 9 not run"


def test_a_sweep_that_was_run_by_itself_is_published_from_its_own_folder(place, tmp_path):
    typed = ["launch/sweep.py", "--config=configs/lsa/b.py:narrow", "--workdir=out"]
    finish(tmp_path, "mine", typed)
    lines, remade = publish((place[0], tmp_path / "mine"))
    assert lines == ["published configs/lsa/b.py:narrow"] and remade == ["mine"]
    item = gallery.read(place[0])["configs/lsa/b.py:narrow"]
    assert item.pictures == ["b-narrow.curve.svg"] and item.seconds == 3
    assert item.cost.startswith("at least 3 s") and item.status == "0 of 1 shown, 9 not run"


def test_a_folder_of_an_unfinished_or_foreign_sweep_or_a_start_up_check_is_refused(place, tmp_path):
    finish(tmp_path, "mine", ["launch/sweep.py", "--config=configs/lsa/b.py:quick"])
    with pytest.raises(InputError, match="holds :quick, which shows no claim"):
        publishing.finished([tmp_path / "mine"])
    (tmp_path / "mine" / "report.json").unlink()
    refused = r"mine is not finished, or of an earlier version \({} of 1 runs\); accepted"
    with pytest.raises(InputError, match=refused.format(2)):
        publishing.finished([tmp_path / "mine"])
    finish(tmp_path, "mine", ["launch/sweep.py", "--config=configs/lsa/b.py:narrow"])
    (tmp_path / "mine" / "results.csv").write_text("seconds,status\n")
    with pytest.raises(InputError, match=refused.format(0)):
        publishing.finished([tmp_path / "mine"])
    finish(tmp_path, "mine", ["launch/sweep.py", "--config=elsewhere.py"])
    with pytest.raises(InputError, match="has the configuration 'elsewhere.py', which is not here"):
        publishing.finished([tmp_path / "mine"])


def test_again_only_what_is_new_or_changed_is_published(place, monkeypatch):
    publish(place)
    assert publish(place) == ([], [])
    (place[1] / "a" / "results.csv").write_text("seconds,status\n2,ok\n3,failed\n")
    (place[0] / "lsa" / "a-small.old.png").touch()
    lines, remade = publish(place)
    assert lines == ["published configs/lsa/a.py:small"] and remade == ["a"]
    assert not (place[0] / "lsa" / "a-small.old.png").exists()
    assert gallery.read(place[0])["configs/lsa/a.py:small"].sweep.failed_runs == 1
    # Of other code of the report everything is made anew.
    code = fingerprints.code
    monkeypatch.setattr(fingerprints, "code", lambda source: code(source) + "x")
    assert publish(place)[1] == ["a", "b"]


def test_one_that_cannot_be_published_does_not_stop_the_others(place):
    finish(place[1], "a", ["sweep.py", "--config.k=3"])
    line, other = publish(place)[0]
    assert "was run with --config.k=3; accepted: a configuration as it is" in line
    assert other == "published configs/lsa/b.py:small"
    finish(place[1], "a")
    Path("configs/lsa/a.py").unlink()
    assert "its configuration is not here" in publish(place)[0][0]


def test_one_point_of_a_sweep_does_not_replace_the_record_of_all(place, tmp_path):
    publish(place)
    before = gallery.read(place[0])
    finish(tmp_path, "a", ["launch/run.py", "--config=configs/lsa/a.py:small"], points=[{}])
    (line,), remade = publish((place[0], tmp_path / "a"))
    assert remade == [] and gallery.read(place[0]) == before
    assert line == (
        f"left out configs/lsa/a.py:small: {tmp_path / 'a'} has 1 run, not the points of the sweep "
        "that its configuration describes; accepted: what launch.sweep runs"
    )


def test_a_report_that_cannot_be_made_anew_is_published_as_it_was_and_is_stale(place):
    def refuse(folder):
        raise InputError("config.d is missing")

    remake(place[1] / "a")
    remake(place[1] / "b")
    lines, _ = publish(place, refuse)
    ending = ", with the report as it was: config.d is missing"
    assert lines == [f"published configs/lsa/{name}.py:small{ending}" for name in "ab"]
    item = gallery.read(place[0])["configs/lsa/a.py:small"]
    assert item.sweep.claims[0]["ours"] == 0.5 and item.fingerprint["report"] == ""
    lines, remade = publish(place)  # by code that can
    assert remade == ["a", "b"] and gallery.read(place[0])["configs/lsa/a.py:small"] != item


def test_start_up_checks_are_not_published(place):
    record = reproduction.read(place[1] / "report.json") | {"scale": "quick"}
    reproduction.write(place[1], record)
    with pytest.raises(InputError, match="shows no claim; accepted: another scale"):
        publish(place)


def test_figures_have_a_limit_and_what_is_there_stays(place, monkeypatch):
    publish(place)
    before = {path: path.read_bytes() for path in place[0].rglob("*") if path.is_file()}
    (place[1] / "a" / "results.csv").write_text("seconds,status\n2,ok\n")
    monkeypatch.setattr(gallery, "MOST_BYTES", gallery.size(place[0]) - 1)
    (line,) = publish(place)[0]
    assert "left out" in line and "bytes with those of lsa/a-small; accepted" in line
    assert {path: path.read_bytes() for path in place[0].rglob("*") if path.is_file()} == before


def test_a_record_that_was_not_written_names_the_figures_that_are_there(place, monkeypatch):
    """Another figure takes the old one's place, and the process ends in between."""
    publish(place)
    (before,) = (item for c, item in gallery.read(place[0]).items() if "/a.py" in c)
    folder = place[1] / "a"
    for kind in ("svg", "png"):
        (folder / f"curve.{kind}").rename(folder / f"other.{kind}")

    def die(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(gallery.files, "write_json", die)
    with pytest.raises(KeyboardInterrupt):
        gallery.keep(place[0], before._replace(pictures=["other"]), folder, b"runs")
    monkeypatch.undo()
    assert gallery.read(place[0])["configs/lsa/a.py:small"] == before
    gallery.keep(place[0], before._replace(pictures=["other"]), folder, b"runs")
    found = sorted(path.name for path in (place[0] / "lsa").glob("a-small.*"))
    assert found == ["a-small.json", "a-small.other.svg", "a-small.results.json.xz"]


@pytest.mark.parametrize("damage", ["no JSON", "{}", "figure", "results"])
def test_a_damaged_record_is_refused(place, damage):
    publish(place)
    path = place[0] / "lsa" / "a-small.json"
    if damage in ("figure", "results"):
        lost = {"figure": "curve.svg", "results": "results.json.xz"}[damage]
        (place[0] / "lsa" / f"a-small.{lost}").unlink()
    else:
        path.write_text(damage)
    with pytest.raises(InputError, match="a-small.json is no record .* publish its sweep again"):
        gallery.read(place[0])


def test_records_name_no_place_of_the_machine(place):
    finish(place[1], "a", ["/somewhere/launch/sweep.py", f"--workdir={place[1]}"])
    publish(place)
    for text in (
        (place[0] / "lsa" / "a-small.json").read_text(),
        lzma.decompress(kept_of(place).read_bytes()).decode(),
    ):
        assert str(place[1]) not in text and "somewhere" not in text
