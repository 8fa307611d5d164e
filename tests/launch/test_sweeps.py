"""Configurations of one command become folders, groups and tasks of about equal cost."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

from launch import _sweeps
from lsa_jax.errors import InputError
from lsa_jax.reporting import files, gallery, locks, reproduction
from lsa_jax.sweep import catalog, config_files, work

ROOT = Path(__file__).resolve().parents[2]
SWEEP = _sweeps.Planned("a", [], None, [], Path("a"))


def test_several_configurations_patterns_and_lines_are_named_by_their_own_line(tmp_path):
    lines = tmp_path / "many.txt"
    lines.write_text(
        "# two of mine\n\n--config=configs/quickstart.py:small --config.network.epochs=3\n"
        "configs/quickstart.py  # as it is\n"
    )
    ours = config_files.expand(str(lines))
    assert ours == [
        ["configs/quickstart.py:small", "--config.network.epochs=3"],
        ["configs/quickstart.py"],
    ]
    papers = config_files.expand(str(ROOT / "configs/lsa/fig*.py:small"))
    files_there = sorted(ROOT.glob("configs/lsa/fig*.py"))
    assert [line for (line,) in papers] == [f"{path}:small" for path in files_there]
    names = [config_files.folder(config, fields) for config, *fields in [*ours, *papers]]
    assert names[:2] == ["quickstart-small-network.epochs=3", "quickstart"]
    assert "lsa-fig6_mnist-small" in names and len(set(names)) == len(names)
    lines.write_text("configs/quickstart.py --workdir=x\n")
    with pytest.raises(InputError, match="has --workdir=x"):
        config_files.expand(str(lines))
    lines.write_bytes(b"\xef\xbb\xbfconfigs/quickstart.py\r\n")  # by an editor of Windows
    assert config_files.expand(str(lines)) == [["configs/quickstart.py"]]


def test_a_long_line_has_a_folder_of_its_own_that_a_file_system_takes(tmp_path):
    fields = [[f"--config.data.folder={'a' * 300}{end}"] for end in "bc"]
    one, other = (config_files.folder("configs/own_images.py", field) for field in fields)
    assert one != other and one == config_files.folder("configs/own_images.py", fields[0])
    for name in (one, other):
        (tmp_path / name).mkdir()
        files.write_json(tmp_path / f"{name}.progress.json", {})


@pytest.mark.parametrize("line", [b"a.py --config.b='c", b"a.py\\", b"\x89PNG \xe9"])
def test_a_file_of_lines_that_has_no_words_is_refused(tmp_path, line):
    (tmp_path / "many.txt").write_bytes(line + b"\n")
    with pytest.raises(InputError, match=r"many\.txt"):
        config_files.expand(str(tmp_path / "many.txt"))


GROUPS = st.lists(
    st.builds(
        _sweeps.Group,
        st.just(SWEEP),
        st.integers(0, 99),
        st.integers(1, 9),
        st.one_of(st.none(), st.floats(0, 1e4)),
    ),
    min_size=1,
    max_size=40,
)


@drawn(GROUPS, st.integers(1, 7))
def test_every_group_is_in_one_task_and_tasks_differ_by_no_more_than_a_group(groups, size):
    costs = _sweeps._costs(groups)
    left = dict(zip(map(id, groups), costs, strict=True))
    tasks = _sweeps.tasks(groups, size)
    sums = [sum(left.pop(id(group)) for group in task) for task in tasks]
    assert not left and sums == sorted(sums, reverse=True)
    assert max(sums) <= sum(costs) / -(-len(groups) // size) + max(costs) * (1 + 1e-9)


def test_unknown_groups_cost_as_many_average_runs_and_the_dry_run_says_so():
    groups = [_sweeps.Group(SWEEP, n, 2, s) for n, s in enumerate([7200.0, 3600.0, None])]
    text = _sweeps.describe([groups[:1], groups[1:]], gpus=4)
    assert text.startswith("6 runs in 3 groups, 2 tasks; about 2 h 15 min a task, 2 h 30 min the")
    assert "18.0 GPU hours in all" in text and "(1 groups by" in text
    assert _sweeps.describe([], gpus=4)  # of sweeps that are done


def test_published_seconds_are_those_of_the_gallery_unless_a_setting_differs(monkeypatch):
    monkeypatch.chdir(ROOT)
    place, config = ROOT / "docs" / "gallery", "configs/lsa/theorem1_scaling.py"
    found = catalog.published_seconds([f"--config={config}"], place)
    record = gallery.read(place)[config].sweep
    assert len(found) == record.runs and sum(found.values()) == pytest.approx(
        record.run_seconds, abs=0.1
    )
    fewer = [f"--config={ROOT / config}", "--config.sweep.seed=(0,)"]
    assert catalog.published_seconds(fewer, place) == found
    for other in (["--config.seed=1"], ["--config.sweep.seed=(0,)", "--config.x=1"]):
        assert not catalog.published_seconds([f"--config={config}", *other], place)
    assert not catalog.published_seconds(["--config=elsewhere.py"], place)


LOOKS = """
import sys
from pathlib import Path
from lsa_jax.sweep import work

print(work.run_free(Path(sys.argv[1]), None), "jax" in sys.modules)
"""


@pytest.fixture(scope="module")
def recorded(launch, tmp_path_factory):
    """A sweep of four groups that is recorded only."""
    workdir = tmp_path_factory.mktemp("recorded") / "out"
    fields = ["--config.sweep.learner=('ntk_infinite',)", "--config.sweep.seed=(0,)"]
    fields += ["--config.sweep.noise=(0.0, 1.0, 2.0, 3.0)"]
    sweep = ["sweep", "--config=configs/quickstart.py:quick", *fields, f"--workdir={workdir}"]
    assert launch(*sweep, "--record_only").returncode == 0
    return workdir


def test_a_process_that_finds_only_held_groups_runs_nothing_and_imports_no_jax(recorded):
    groups = work.recorded_groups(recorded)
    assert [len(group) for group in groups] == [1] * 4
    with locks.holding(recorded, [group[0] for group in groups]):
        assert work.run(recorded, [0], None, wait=False) is None
        look = [sys.executable, "-c", LOOKS, str(recorded)]
        found = subprocess.run(look, capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.split() == ["0", "False"]
    assert not (recorded / "runs").exists()


def test_many_processes_on_one_folder_write_each_result_once(recorded, fork):
    clients = [
        fork("groups", f"--workdir={recorded}", environment=dict(os.environ)) for _ in range(2)
    ]
    found = [client.wait() for client in clients]
    assert [status for status, _, _ in found] == [0] * 2, found
    assert len(list(recorded.glob("runs/*/result.json"))) == 4
    work.report_all(recorded)
    assert (recorded / "report.md").exists()


def test_the_report_on_all_counts_what_is_missing(recorded, tmp_path):
    root = tmp_path / "many"
    root.mkdir()
    (root / "done").symlink_to(recorded)
    half = root / "half"
    (half / "runs").mkdir(parents=True)
    (half / "config.json").write_bytes((recorded / "config.json").read_bytes())
    first = sorted((recorded / "runs").iterdir())[0]
    (half / "runs" / first.name).symlink_to(first)
    sweeps = [reproduction.Sweep(name, "c.py", "I", "a", "c") for name in ("done", "half", "none")]
    record = {"paper": "", "scale": "", "title": "t", "command": "c", "sweeps": sweeps}
    reproduction.write(root, record)
    assert work.folders(root) == [root / "done", root / "half"]
    work.report_all(root)
    found = files.read_json(root / "report.json")["sweeps"]
    assert [sweep["status"] for sweep in found] == ["done", "started, not finished", "not run"]
    assert found[1]["reason"] == "3 of 4 runs are missing" and found[0]["runs"] == 4
    assert "1 of 3 configurations are done" in (root / "report.md").read_text()
    assert json.loads((root / "report.json").read_text())["title"] == "t"
