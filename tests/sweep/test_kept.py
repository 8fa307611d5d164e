"""Results are kept beside their record, and reports made from them without the runs."""

import lzma
import shutil

import pytest
from published_sweeps import CLAIMS, RUNS, finish, kept_of, publish, remake

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, gallery
from lsa_jax.sweep import fingerprints, kept, publishing


def test_kept_results_are_the_sweeps_own_and_of_the_same_bytes_each_time(place, tmp_path):
    publish(place)
    kept.unpack(kept_of(place), tmp_path / "again")
    for run in RUNS:
        for name in ("result.json", "metrics.jsonl"):
            first, again = (f / "runs" / run / name for f in (place[1] / "a", tmp_path / "again"))
            assert again.read_bytes() == first.read_bytes()
    assert files.read_json(tmp_path / "again" / "config.json") == files.read_json(
        place[1] / "a" / "config.json"
    ) | {"command": ["launch.sweep", "--config="]}
    assert kept.pack(tmp_path / "again") == kept.pack(place[1] / "a") == kept_of(place).read_bytes()


@pytest.mark.parametrize("words", [["--config=c.py:small"], ["--config", "c.py:small"]])
def test_of_a_command_its_configuration_is_kept(place, words, tmp_path):
    finish(place[1], "a", ["sweep.py", *words, "--workdir=somewhere"])
    path = tmp_path / "kept"
    path.write_bytes(kept.pack(place[1] / "a"))
    kept.unpack(path, tmp_path / "again")
    found = files.read_json(tmp_path / "again" / "config.json")
    assert found["command"] == ["launch.sweep", "--config=c.py:small"]


def renew(place, claims=CLAIMS[1:]):
    """Returns what is said of reports made anew by a code whose claims are others."""

    def make(folder):
        remake(folder)
        files.write_json(folder / "report.json", claims)
        results = files.read_results(folder, RUNS)
        results.to_csv(folder / "results.csv", index=False)

    return list(publishing.renew(place[0], make))


def changes(monkeypatch, *words):
    monkeypatch.setattr(fingerprints, "changed", lambda config, fingerprint: list(words))


def test_reports_that_the_code_would_make_otherwise_are_made_anew_without_the_runs(
    place, monkeypatch
):
    publish(place)
    before = gallery.read(place[0])["configs/lsa/a.py:small"]
    shutil.rmtree(place[1])
    changes(monkeypatch)
    assert renew(place) == []
    changes(monkeypatch, "the setting k", fingerprints.CODE_OF_REPORT)
    assert renew(place) == []  # to be run again
    changes(monkeypatch, fingerprints.CODE_OF_REPORT)
    assert renew(place) == [f"made configs/lsa/{name}.py:small anew" for name in "ab"]
    item = gallery.read(place[0])["configs/lsa/a.py:small"]
    assert item.status == "9 not run" and item.seconds == 70 and item.results == before.results
    assert item.sweep.machine == before.sweep.machine and item.sweep.runs == len(RUNS)


@pytest.mark.parametrize("content", [b"none", lzma.compress(b"[]"), lzma.compress(b"{")])
def test_damaged_results_leave_the_record_as_it_was(place, content, monkeypatch):
    publish(place)
    before = gallery.read(place[0])
    kept_of(place).write_bytes(content)
    changes(monkeypatch, fingerprints.CODE_OF_REPORT)
    (line, other) = renew(place)
    assert line.startswith("left configs/lsa/a.py:small as it was") and "is damaged; " in line
    assert other == "made configs/lsa/b.py:small anew"
    config = "configs/lsa/a.py:small"
    assert gallery.read(place[0])[config] == before[config]


def test_results_of_more_than_can_be_held_are_refused(place, tmp_path, monkeypatch):
    publish(place)
    monkeypatch.setattr(kept, "MOST_BYTES", 100)
    with pytest.raises(InputError, match="a-small.results.json.xz is damaged"):
        kept.unpack(kept_of(place), tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_of_reports_that_draw_arrays_no_results_are_kept(place):
    publish(place)
    assert kept_of(place).exists()
    array = place[1] / "a" / "groups" / "k=64" / "examples.npy"
    files.write_bytes(array, b"")
    (place[1] / "a" / "results.csv").write_text("seconds,status\n2,ok\n")
    publish(place)
    assert gallery.read(place[0])["configs/lsa/a.py:small"].results == ""
    assert not (place[0] / "lsa" / "a-small.results.json.xz").exists()
