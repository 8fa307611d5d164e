"""Finished sweeps come into the gallery as they are, once, and nothing else does."""

import lzma
import re
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, gallery, reproduction
from lsa_jax.reporting.reproduction import DONE, FAILED, Sweep
from lsa_jax.sweep import fingerprints, gallery_pages, kept, publishing
from lsa_jax.sweep.catalog import Entry, Variant

CLAIM = {"item": "a gap", "paper": 0.75, "ours": 0.5, "spread": 0.01, "status": "not shown"}
CLAIMS = [CLAIM | {"low": 0.4, "high": 0.6, "note": "<few> seeds"}]
CLAIMS += [
    {"item": f"claim {number}", "paper": "-", "ours": "", "spread": None, "status": "not run"}
    for number in range(9)
]
HOST = {"cpu": "A processor", "cores": 2, "memory_gib": 24.0, "python": "3.11.7"}
RECORD = {"devices": ["cuda:0 (H100)", "cuda:1 (H100)"], "versions": {"jax": "0.10.2"}}
RUNS = {"k=64": 2, "k=256": 1}


def remake(folder):
    """Writes what a report writes."""
    figure, axis = plt.subplots(figsize=(2, 1))
    axis.plot([0, 1], [1, 0])
    for kind in ("svg", "png"):
        figure.savefig(folder / f"curve.{kind}")
    plt.close(figure)
    files.write_json(folder / "report.json", CLAIMS)
    (folder / "report.md").write_text("# T\n\n![curve](curve.png)\n")


def finish(workdir, name, command=()):
    """Leaves what a finished sweep does."""
    config = {"experiment": "lsa/lemmas", "name": name}
    record = RECORD | {"command": list(command), "config": config, "sweep": [{"k": 64}]}
    record["host"] = HOST
    files.write_json(workdir / name / "config.json", record)
    for run, seconds in RUNS.items():
        result = {"id": run, "seconds": seconds, "status": "ok"}
        files.write_run(workdir / name, run, result, [{"step": 1, "loss": 0.1 + seconds}])
    (workdir / name / "results.csv").write_text("seconds,status\n2,ok\n1,ok\n")
    files.write_json(workdir / name / "report.json", [])


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Returns a gallery and a reproduction with the finished sweeps a and b."""
    monkeypatch.chdir(tmp_path)
    sweeps = []
    for name, status in (("a", DONE), ("b", DONE), ("c", FAILED)):
        path = Path("configs/lsa") / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'"""Figure {name}: it shows."""\n')
        timed = {"wall_seconds": 70.0, "cpu_seconds": 50.0, "machine": HOST | RECORD}
        sweeps.append(Sweep(name, f"{path}:small", "", "", "", status, **timed))
    workdir = tmp_path / "out"
    for name in ("a", "b"):
        finish(workdir, name)
    record = {"paper": "lsa", "scale": "small", "title": "T", "command": "", "sweeps": sweeps}
    reproduction.write(workdir, record)
    (tmp_path / "gallery").mkdir()
    return tmp_path / "gallery", workdir


def publish(place, made=None):
    """Returns what is said of sweeps, and the names of those whose report was made anew."""
    remade = []

    def make(folder):
        remade.append(folder.name)
        (made or remake)(folder)

    lines = list(publishing.publish(place[0], publishing.finished([place[1]]), make))
    return lines, remade


def test_finished_sweeps_are_published_with_figures_claims_and_cost(place):
    lines, remade = publish(place)
    assert lines == [f"published configs/lsa/{name}.py:small" for name in "ab"]
    assert remade == ["a", "b"]
    found = gallery.read(place[0])
    assert list(found) == ["configs/lsa/a.py:small", "configs/lsa/b.py:small"]
    item = found["configs/lsa/a.py:small"]
    assert item.pictures == ["a-small.curve.svg"] and item.size == "small"
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


def kept_of(place):
    """Returns where the results of a are kept."""
    (item,) = (item for c, item in gallery.read(place[0]).items() if "/a.py" in c)
    return place[0] / item.folder / item.results


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


def test_start_up_checks_are_not_published(place):
    record = reproduction.read(place[1] / "report.json") | {"scale": "quick"}
    reproduction.write(place[1], record)
    with pytest.raises(InputError, match="shows no claim; accepted: another scale"):
        publish(place)


def test_of_a_check_that_it_starts_no_figure_is_published(place):
    def only_starts(folder):
        remake(folder)
        files.write_json(folder / "report.json", CLAIMS[1:])

    publish(place, only_starts)
    item = gallery.read(place[0])["configs/lsa/a.py:small"]
    assert item.status == "9 not run" and item.pictures == [] and gallery.size(place[0]) == 0
    gallery_pages.write(place[0], entries(place[0]))
    assert "![" not in (place[0] / "lsa.md").read_text()
    assert "<img" not in (place[0] / "index.md").read_text()


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


def entries(place):
    """Returns a catalogue of a, of which the gallery has the small size, and of d, which is not."""
    found = gallery.read(place)
    sizes = [Variant(f"configs/lsa/a.py{s}", n, ("mnist",), found.get(f"configs/lsa/a.py{s}"))
             for n, s in (("full", ""), ("small", ":small"))]  # fmt: skip
    missing = [Variant("configs/lsa/d.py:small", "small", (), None)]
    return [
        Entry(Path("configs/lsa/a.py"), "lsa", "Figure a", "the x_i <w, x> fall", sizes),
        Entry(Path("configs/lsa/d.py"), "lsa", "Figure d", "it shows", missing),
    ]


def test_a_page_has_what_came_out_beside_the_paper_and_the_command(place):
    publish(place)
    gallery_pages.write(place[0], entries(place[0]))
    page = (place[0] / "lsa.md").read_text()
    assert "\nThe x\\_i &lt;w, x> fall\n" in page
    assert "![Figure a](lsa/a-small.curve.svg)" in page
    assert "**Size small**: 0 of 1 shown, 9 not run. 1 min 10 s on 2 cores" in page
    assert "(50 s of processor time), 2 runs; A processor, 2 x H100, JAX 0.10.2;" in page
    assert "; [results](lsa/a-small.results.json.xz).\n\n<!-- record" in page
    cells = ["a gap", "0.75", "0.5 ± 0.01", "0.4 to 0.6", "&lt;few&gt; seeds"]
    assert all(f">{cell}</td>" in page for cell in cells)
    assert '<span class="gallery-status bad">not shown</span>' in page
    assert "<summary>2 more</summary>" in page
    command = (
        "python -m launch.sweep --config=configs/lsa/{}.py:small \\\n    --workdir=runs/{}{}\n"
    )
    assert command.format("a", "a-small", " --data_dir=DIR") in page
    assert "\nNot run: `--config=configs/lsa/a.py`.\n" in page
    assert command.format("d", "d-small", "") in page.partition("## Not run")[2]


def sizes_of(place, **claims):
    """Returns a catalogue of a, published at the sizes named with their claims and seconds."""
    publish(place)
    item = gallery.read(place[0])["configs/lsa/a.py:small"]
    sizes = []
    for size, (seconds, told) in claims.items():
        config = "configs/lsa/a.py" + f":{size}" * (size != "full")
        sweep = item.sweep._replace(config=config, claims=told, wall_seconds=seconds)
        sizes.append(Variant(config, size, (), item._replace(sweep=sweep)))
    return [Entry(Path("configs/lsa/a.py"), "lsa", "Figure a", "it shows", sizes)]


def claim(item, ours, status):
    return CLAIMS[0] | {"item": item, "ours": ours, "status": status}


def test_sizes_of_a_claim_stand_one_below_the_other(place):
    full = [claim("a gap", 0.7, "shown"), claim("a rate", 2, "shown")]
    small = [claim("a rate", 1, "undecided"), claim("a gap", 0.5, "not shown")]
    found = sizes_of(place, full=(9, full), small=(2, [*small, claim("a sign", 1, "shown")]))
    gallery_pages.write(place[0], found)
    page = (place[0] / "lsa.md").read_text()
    columns, *rows = re.findall(r"<tr>(.*?)</tr>", page)
    assert re.findall(r"<th>(.*?)</th>", columns)[:4] == ["claim", "size", "status", "paper"]
    cells = [re.findall(r"<td.*?>(?:<span.*?>)?(.*?)(?:</span>)?</td>", row)[:5] for row in rows]
    assert cells == [
        ["a gap", "full", "shown", "0.75", "0.7 ± 0.01"],
        ["", "small", "not shown", "0.75", "0.5 ± 0.01"],
        ["a rate", "full", "shown", "0.75", "2 ± 0.01"],
        ["", "small", "undecided", "0.75", "1 ± 0.01"],
        ["a sign", "small", "shown", "0.75", "1 ± 0.01"],
    ]


@pytest.mark.parametrize(
    "sizes, shown",
    [
        ({"full": (2, "shown"), "small": (9, "not shown")}, "shown"),
        ({"small": (2, "shown"), "medium": (9, "not shown")}, "not shown"),
        ({"small": (9, "shown"), "medium": (2, "not shown")}, "shown"),
    ],
)
def test_a_claim_counts_once_at_the_published_size_or_the_longest(place, sizes, shown):
    told = {n: (seconds, [claim("a gap", 1, is_)]) for n, (seconds, is_) in sizes.items()}
    gallery_pages.write(place[0], sizes_of(place, **told))
    page = (place[0] / "index.md").read_text()
    count = {name: int(n) for name, n in re.findall(r'data-label="([^"]*)">(\d+)<', page)[:6]}
    others = {"shown", "not shown"} - {shown}
    assert count[shown] == 1 and count[others.pop()] == 0
    assert count["at the published size"] == ("full" in sizes)


def test_the_first_page_counts_claims_and_has_a_card_an_item(place):
    publish(place)
    gallery_pages.write(place[0], entries(place[0]))
    page = (place[0] / "index.md").read_text()
    assert ">1 of 2</td>" in page
    counts = [f'<td data-label="{name}">{n}</td>' for name, n in (("not shown", 1), ("not run", 9))]
    assert all(count in page for count in counts)
    a, d = page.split('<a class="gallery-card" ')[1:]
    assert a.startswith('href="lsa.md#a"') and 'data-status="not shown|not run"' in a
    assert 'data-seconds="70.0"' in a and 'src="lsa/a-small.curve.svg"' in a
    assert d.startswith('href="lsa.md#d"') and 'data-status="not run">' in d and "<img" not in d


def test_records_name_no_place_of_the_machine(place):
    finish(place[1], "a", ["/somewhere/launch/sweep.py", f"--workdir={place[1]}"])
    publish(place)
    for text in (
        (place[0] / "lsa" / "a-small.json").read_text(),
        lzma.decompress(kept_of(place).read_bytes()).decode(),
    ):
        assert str(place[1]) not in text and "somewhere" not in text
