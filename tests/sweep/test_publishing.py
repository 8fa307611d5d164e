"""Finished sweeps come into the gallery once, and their kept results make their reports again."""

import lzma
import shutil
from pathlib import Path
from unittest import mock

import pytest
from published_sweeps import CLAIMS, RUNS, finish, kept_of, publish, remake

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.lemmas.settings import SETTINGS as settings
from lsa_jax.reporting import files, gallery, reproduction
from lsa_jax.sweep import publishing

A = "configs/lsa/a.py:small"


def test_finished_sweeps_are_published_once_with_figures_claims_and_cost(place):
    finish(place[1], "a", ["/somewhere/launch/sweep.py", f"--workdir={place[1]}"])
    lines, remade = publish(place)
    assert lines == [f"published configs/lsa/{name}.py:small" for name in "ab"]
    assert remade == ["a", "b"] and publish(place) == ([], [])
    item = gallery.read(place[0])[A]
    assert item.pictures == ["a-small.curve.svg"] and item.size == "small"
    assert (place[0] / "lsa" / item.pictures[0]).stat().st_size == gallery.size(place[0]) / 2
    assert item.sweep.claims[0]["low"] == 0.4 and item.seconds == 70
    assert item.cost == "1 min 10 s on 2 cores"
    assert item.status == "0 of 1 claims hold, 1 does not, 9 claims were not run"
    record = (place[0] / "lsa" / "a-small.json").read_text()
    for text in (record, lzma.decompress(kept_of(place).read_bytes()).decode()):
        assert str(place[1]) not in text and "somewhere" not in text  # no place of the machine


def test_unfinished_foreign_and_test_sized_sweeps_are_refused(place, tmp_path):
    def refused(words, *command, folder=tmp_path / "mine"):
        if command:
            finish(tmp_path, "mine", ["launch/sweep.py", *command])
        with pytest.raises(InputError, match=words):
            publishing.finished([folder])

    refused("shows no claim", "--config=configs/lsa/b.py:quick")
    refused("is not here", "--config=elsewhere.py")
    finish(tmp_path, "mine", ["launch/sweep.py", "--config=configs/lsa/b.py:narrow"])
    (tmp_path / "mine" / "results.csv").write_text("seconds,status\n")
    refused(r"is not finished.*\(0 of 1 runs\)")
    record = reproduction.read(place[1] / "report.json")
    quick = [s._replace(config=s.config.replace("small", "quick")) for s in record["sweeps"]]
    reproduction.write(place[1], record | {"sweeps": quick})
    refused("shows no claim", folder=place[1])


def test_changed_results_replace_a_record_and_its_files(place):
    publish(place)
    (place[1] / "a" / "results.csv").write_text("seconds,status\n2,ok\n3,failed\n")
    (place[0] / "lsa" / "a-small.old.png").touch()
    assert publish(place) == ([f"published {A}"], ["a"])
    assert not (place[0] / "lsa" / "a-small.old.png").exists()
    assert gallery.read(place[0])[A].sweep.failed_runs == 1
    # Results of a report that draws arrays are not kept: they would be as large as the arrays.
    files.write_bytes(place[1] / "a" / "groups" / "k=64" / "examples.npy", b"")
    (place[1] / "a" / "results.csv").write_text("seconds,status\n2,ok\n")
    publish(place)
    assert gallery.read(place[0])[A].results == ""
    assert not (place[0] / "lsa" / "a-small.results.json.xz").exists()


def test_a_sweep_that_cannot_be_published_does_not_stop_the_others(place, tmp_path):
    def fail(folder):
        if folder.name == "a":
            raise InputError("config.d is missing")
        return remake(folder)

    assert publish(place, fail)[0][0] == f"left out {A}: config.d is missing"
    before = gallery.read(place[0])
    assert list(before) == ["configs/lsa/b.py:small"]
    finish(place[1], "a", ["sweep.py", "--config.k=3"])
    assert "was run with --config.k=3" in publish(place)[0][0]
    finish(tmp_path, "b", ["launch/run.py", "--config=configs/lsa/b.py:small"], points=[{}])
    assert "has 1 run, not the points" in publish((place[0], tmp_path / "b"))[0][0]
    finish(place[1], "a")
    Path("configs/lsa/a.py").unlink()
    assert "its configuration is not here" in publish(place)[0][0]
    assert gallery.read(place[0]) == before


@pytest.mark.parametrize("damage", ["no JSON", "{}", "curve.svg", "results.json.xz"])
def test_a_damaged_record_is_refused(place, damage):
    publish(place)
    if "." in damage:
        (place[0] / "lsa" / f"a-small.{damage}").unlink()
    else:
        (place[0] / "lsa" / "a-small.json").write_text(damage)
    with pytest.raises(InputError, match="a-small.json is no record"):
        gallery.read(place[0])


def test_kept_results_are_the_sweeps_own_and_have_the_same_bytes_each_time(place, tmp_path):
    finish(place[1], "a", ["sweep.py", "--config=c.py:small", "--workdir=somewhere"])
    path, again = tmp_path / "kept", tmp_path / "again"
    path.write_bytes(publishing.pack(place[1] / "a"))
    publishing.unpack(path, again)
    for run in RUNS:
        for name in ("result.json", "metrics.jsonl"):
            first, second = (folder / "runs" / run / name for folder in (place[1] / "a", again))
            assert second.read_bytes() == first.read_bytes()
    command = {"command": ["launch.sweep", "--config=c.py:small"]}
    recorded = files.read_json(place[1] / "a" / "config.json")
    assert files.read_json(again / "config.json") == recorded | command
    assert publishing.pack(again) == path.read_bytes()


def renew(place):
    """Renews with a code whose claims are others, and returns the lines."""

    def make(folder):
        report = remake(folder)
        files.write_json(folder / "report.json", CLAIMS[1:])
        files.read_results(folder, RUNS).to_csv(folder / "results.csv", index=False)
        return report

    with mock.patch.object(publishing, "remake", make):
        return list(publishing.renew(place[0]))


def test_reports_of_an_earlier_version_are_made_again_without_the_runs(place, monkeypatch):
    publish(place)
    before = gallery.read(place[0])[A]
    shutil.rmtree(place[1])
    assert renew(place) == []

    def changes(*words):
        monkeypatch.setattr(publishing, "changes", lambda config, fingerprint: list(words))

    changes("the setting k", publishing.REPORT)
    assert renew(place) == []  # its sweep has to be run again
    changes(publishing.REPORT)
    assert renew(place) == [f"made configs/lsa/{name}.py:small again" for name in "ab"]
    item = gallery.read(place[0])[A]
    assert item.status == "9 claims were not run"
    assert item.seconds == 70 and item.results == before.results
    assert item.sweep.machine == before.sweep.machine and item.sweep.runs == len(RUNS)
    assert item.pictures == []  # a check that it starts has none
    for content in (b"none", lzma.compress(b"[]"), lzma.compress(b"{")):
        kept_of(place).write_bytes(content)
        assert "is damaged" in renew(place)[0] and gallery.read(place[0])[A] == item


CONFIG = """
from lsa_jax.experiments.lsa.lemmas.settings import SETTINGS as settings
from lsa_jax.sweep.variants import configurations

get_config = configurations(settings, {{"d": {d}}}, small={{"sweep.k": (64, 256)}})
"""


def test_a_fingerprint_changes_with_settings_points_and_the_reports_version(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(CONFIG.format(d=4))
    before = publishing._fingerprint_now(f"{path}:small")

    def changes(config=f"{path}:small", **others):
        return publishing.changes(config, before | others)

    assert changes() == []
    assert changes(str(path)) == ["the setting sweep.k"]
    assert changes(points="") == ["the points of the sweep"]
    assert changes(points="", report=before["report"] + 1) == [
        "the points of the sweep",
        "the report",
    ]
    assert changes(settings=before["settings"] | {"gone": 1}) == ["the setting gone"]
    # A setting that is new is a change only where it differs from its default.
    without = {name: value for name, value in before["settings"].items() if name != "d"}
    assert changes(settings=without) == ["the setting d"]
    path.write_text(CONFIG.format(d=settings.default_config().d))
    assert settings.default_config().d != 4 and changes(settings=without) == []
    path.unlink()
    assert changes() == ["the configuration is gone"]
