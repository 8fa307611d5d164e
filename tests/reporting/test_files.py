"""Files are whole or absent, and damaged ones are named."""

import contextlib
import errno
import json

import numpy as np
import pandas as pd
import pytest

from lsa_jax.errors import InputError, StorageError
from lsa_jax.reporting import files, write
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.write import write_report


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    files.write_json(path, {"accuracy": 1})

    def full_disk(descriptor):
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(files.os, "fsync", full_disk)
    with pytest.raises(StorageError, match=rf"{path} cannot be written \(\d+ bytes\): no space"):
        files.write_json(path, {"accuracy": 2})
    assert files.read_json(path) == {"accuracy": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b'{"id": "one", "acc', b"\xff\xfe", b"[]", b'{"id": "two"}'),
        *(b'{"id": "one"}', b'{"id": "one", "status": 1}'),
        b'{"id": "one", "status": "ok", "seconds": "abc"}',
    ],
)
def test_a_damaged_result_is_named_with_what_to_do(tmp_path, content):
    files.write_run(tmp_path, "one", {"id": "one"}, [{"epoch": 1}])
    path = files.run_directory(tmp_path, "one") / "result.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path} is .*; remove the folder {path.parent}, ") as e:
        files.read_results(tmp_path, ["one"])
    assert "\n" not in str(e.value)


def test_metrics_cut_in_the_middle_are_named_with_what_to_do(tmp_path):
    files.write_run(tmp_path, "one", {"id": "one"}, [{"epoch": 1}, {"epoch": 2}])
    path = files.run_directory(tmp_path, "one") / "metrics.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    remedy = f"remove the folder {path.parent}, "
    with pytest.raises(InputError, match=f"^{path} is damaged; {remedy}"):
        files.read_metrics(tmp_path, "one")
    for row in ("[1]", '{"epoch": "one"}', '{"step": 1e999}', '{"epoch": null}'):
        path.write_text(f"{row}\n")
        with pytest.raises(InputError, match=f"^{path} is damaged; {remedy}"):
            files.read_metrics(tmp_path, "one")
    path.unlink()
    with pytest.raises(InputError, match=f"^{path} is missing; {remedy}"):
        files.read_metrics(tmp_path, "one")


@pytest.mark.parametrize(
    "damage",
    [
        *({"config": []}, {"sweep": {}}, {"sweep": [1]}, {"versions": []}, {"command": "x"}),
        *({"devices": {}}, {"host": "here"}),
    ],
)
def test_a_record_of_other_types_is_named_with_its_part(tmp_path, damage):
    path, record = tmp_path / "config.json", {"config": {}, "sweep": [{}], "versions": {}}
    files.write_json(path, record)
    assert files.read_record(tmp_path) == record
    files.write_json(path, record | damage)
    (name,) = damage
    with pytest.raises(InputError, match=f"^{path} is damaged: {name} is .*; expected the rec"):
        files.read_record(tmp_path)


@pytest.mark.parametrize("name", ["array.npy", "arrays.npz"])
def test_an_array_that_is_cut_or_changed_anywhere_is_read_or_named(tmp_path, name):
    path = tmp_path / name
    (np.save if name.endswith("npy") else np.savez)(path, np.arange(50.0))
    found, content = files.read_array(path, "remove it"), path.read_bytes()
    np.testing.assert_array_equal(found["arr_0"] if isinstance(found, dict) else found, range(50))
    for size in (0, 5, 100, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(InputError, match=f"^{path} is damaged; remove it$"):
            files.read_array(path, "remove it")
    # The header comes first in the one, the directory last in the other.
    places = (
        range(0, 128, 3) if name.endswith("npy") else range(len(content) - 120, len(content), 3)
    )
    for place in places:
        for wrong in (1, 39, content[place] ^ 1, content[place] ^ 128):
            path.write_bytes(content[:place] + bytes([wrong]) + content[place + 1 :])
            with contextlib.suppress(InputError):
                files.read_array(path, "remove it")


def test_numbers_that_json_does_not_know_become_plain_or_null(tmp_path):
    content = {
        "a": np.float32(0.5),
        "b": np.arange(2),
        "c": float("nan"),
        "d": (np.inf, np.int8(3)),
    }
    files.write_json(tmp_path / "x.json", content)
    assert files.read_json(tmp_path / "x.json") == {
        "a": 0.5,
        "b": [0, 1],
        "c": None,
        "d": [None, 3],
    }


def test_a_run_without_result_json_does_not_count_as_done(tmp_path):
    files.write_run(tmp_path, "one", {"id": "one", "status": "ok"}, [{"epoch": 1}, {"epoch": 2}])
    files.write_text(files.run_directory(tmp_path, "two") / "metrics.jsonl", "")
    assert files.read_result(tmp_path, "two") is None
    assert list(files.read_results(tmp_path, ["one", "two"])["id"]) == ["one"]
    assert files.read_metrics(tmp_path, "one") == [{"epoch": 1}, {"epoch": 2}]


def _report():
    import matplotlib.pyplot as plt

    def draw():
        figure, axis = plt.subplots()
        axis.plot([0, 1], [1, 0], label="curve")
        axis.legend()
        return figure

    return Report(
        title="A title",
        tables=[("A heading", pd.DataFrame({"x": [1.0]}))],
        claims=[Row("gap", 18.2, 20.5, 1.25, "shown")],
        figures={"curve": draw},
        extra_tables={"trajectories": pd.DataFrame({"step": [0, 1]})},
        notes=["A note."],
    )


def test_a_report_writes_every_file_it_names(tmp_path):
    results = pd.DataFrame(
        {"id": ["a", "b"], "status": ["ok", "failed"], "message": ["", "the loss was not finite"]}
    )
    text = write_report(tmp_path, results, _report())
    written = [line.split()[-1] for line in text.splitlines() if line.startswith("wrote ")]
    assert sorted(written) == sorted(str(p) for p in tmp_path.iterdir())
    (row,) = json.loads((tmp_path / "report.json").read_text())
    expected = {"item": "gap", "paper": 18.2, "ours": 20.5, "spread": 1.25, "status": "shown"}
    assert expected.items() <= row.items()
    assert "- b: the loss was not finite" in (tmp_path / "report.md").read_text()
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    write_report(tmp_path / "again", results, _report())  # gives the same bytes
    for path in (tmp_path / "again").iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()


def test_a_report_of_which_a_part_fails_leaves_no_new_report_md(tmp_path, monkeypatch):
    """By which a reproduction tells a report on failed runs from a crash."""
    results = pd.DataFrame({"id": ["a"], "status": ["ok"], "message": [""]})

    def fail(*given):
        raise KeyError("seconds")

    monkeypatch.setattr(write, "report_page", fail)
    with pytest.raises(KeyError):
        write_report(tmp_path, results, _report())
    assert not (tmp_path / "report.md").exists()
