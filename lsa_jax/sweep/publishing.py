"""The gallery: publishes finished sweeps, and renews their reports.

A record's fingerprint shows whether it still has the settings and report of today's code: it holds
the settings, a hash of the sweep's points, the version of the report and a hash of the results. The
version is a number that a person raises, `Experiment.report_version`; claims that change without it
fail the replay test. The results are kept in one small file, from which a report is made again in a
second where runs took hours.
"""

import hashlib
import json
import lzma
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, gallery, outcomes, papers, reproduction
from lsa_jax.reporting.gallery import Item
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.reproduction import Sweep
from lsa_jax.reporting.write import cell
from lsa_jax.sweep import config_files
from lsa_jax.sweep.experiment import load_experiment
from lsa_jax.sweep.fields import flatten, load_settings
from lsa_jax.sweep.run import remake
from lsa_jax.sweep.variants import SIZE_FOR_TESTS

# --- fingerprints --------------------------------------------------------------------------------

# As one of the changes.
POINTS, REPORT = "the points of the sweep", "the report"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _of(config: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "settings": files.plain(flatten(config)),
        "points": _sha256(json.dumps(files.plain(list(points)), sort_keys=True).encode()),
        "report": load_experiment(config["experiment"]).report_version,
    }


def fingerprint(folder: Path) -> dict[str, Any]:
    """Returns the fingerprint of a finished sweep, with a hash of its results.

    Raises:
        InputError: its experiment is gone.
    """
    record = files.read_record(folder)
    results = _sha256((folder / "results.csv").read_bytes())
    return _of(record["config"], record["sweep"]) | {"results": results}


def _fingerprint_now(config: str) -> dict[str, Any]:
    """Returns today's fingerprint of a configuration, as it follows `--config=`."""
    path, variant = papers.split_config(config)
    module = config_files.load(path)
    found = config_files.config_of(module, variant)
    return _of(found.to_dict(), config_files.sweep_of(module, found))


def _other_setting(there: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """Returns the first setting that has changed; one that is new and at its default has not."""
    settings = load_settings(here["experiment"])
    defaults = files.plain(flatten(settings.default_config().to_dict()))
    for name in {**here, **there}:
        before = there.get(name) if name in there else defaults.get(name)
        if name not in here or here[name] != before:
            return name
    return None


def changes(config: str, published: Mapping[str, Any]) -> list[str]:
    """Returns the names of changes of a configuration since its `fingerprint` was published.

    Raises:
        InputError: its file cannot be loaded.
    """
    if not papers.split_config(config)[0].is_file():
        return ["the configuration is gone"]
    found, words = _fingerprint_now(config), []
    if setting := _other_setting(published["settings"], found["settings"]):
        words.append(f"the setting {setting}")
    elif found["points"] != published["points"]:
        words.append(POINTS)
    if found["report"] != published["report"]:
        words.append(REPORT)
    return words


# --- kept results --------------------------------------------------------------------------------

# Of the unpacked text; checked while it is read, as a few bytes can stand for many.
MOST_KEPT_BYTES = 500_000_000


def _record(folder: Path) -> dict[str, Any]:
    """Returns a sweep's record, without the folders of the machine it ran on."""
    record = files.read_record(folder)
    named = f"--config={config_files.named_in(record['command'])}"
    fields = [word for word in record["command"] if word.startswith("--config.")]
    return record | {"command": ["launch.sweep", named, *fields]}


def pack(folder: Path) -> bytes | None:
    """Returns the settings, results and histories of a finished sweep, as compressed JSON.

    The same runs give the same bytes. None where the report draws arrays of its groups, which are
    as large as the figures.

    Raises:
        InputError: a file of the folder is damaged.
    """
    if any(folder.glob("groups/*/*.npy")):
        return None
    ids = [path.parent.name for path in sorted(folder.glob("runs/*/result.json"))]
    of_examples = outcomes.read(folder, ids)
    runs = [
        {"result": files.read_result(folder, run), "history": files.read_all_metrics(folder, run)}
        | ({"outcomes": outcomes.to_json(of_examples[run])} if run in of_examples else {})
        for run in ids
    ]
    content = json.dumps({"record": _record(folder), "runs": runs}, allow_nan=False)
    return lzma.compress(content.encode(), preset=9)


def read_kept(path: Path) -> dict[str, Any]:
    """Returns what `pack` made: the "record" of a sweep, and its "runs".

    Raises:
        InputError: the file is damaged.
    """
    try:
        text = lzma.LZMADecompressor().decompress(path.read_bytes(), MOST_KEPT_BYTES)
        found = json.loads(text)
        return {"record": dict(found["record"]), "runs": list(found["runs"])}
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is damaged; publish its sweep again, or remove it and lose its results"
        ) from None


def unpack(path: Path, folder: Path) -> None:
    """Unpacks results into a folder, as the sweep left it before its first report.

    Raises:
        InputError: the file is damaged.
    """
    found = read_kept(path)
    files.write_json(folder / "config.json", found["record"])
    for run in found["runs"]:
        if "outcomes" in run:
            outcomes.write(folder, run["result"]["id"], outcomes.from_json(run["outcomes"]))
        files.write_run(folder, run["result"]["id"], run["result"], run["history"])


# --- publishing ----------------------------------------------------------------------------------


def _one_sweep(folder: Path) -> Sweep:
    """Returns a sweep that was run by itself; its cost is the sum of its runs' own times."""
    recorded = files.read_record(folder)
    config = config_files.named_in(recorded["command"])
    path, scale = papers.split_config(config)
    if not path.is_file():
        raise InputError(
            f"{folder} has the configuration {config!r}, which is not here; accepted: one below "
            "this folder"
        )
    if scale == SIZE_FOR_TESTS:
        return Sweep(folder.name, config, "", "", "")  # refused by its scale
    due, done = len(recorded["sweep"]), len([*folder.glob("runs/*/result.json")])
    reported = all((folder / name).exists() for name in ("results.csv", "report.json"))
    # A report can exist before all runs are done.
    if "host" not in recorded or done < due or not reported:
        raise InputError(
            f"{folder} is not finished, or of an earlier version ({done} of {due} runs); accepted: "
            "a sweep with its report and the machine it ran on"
        )
    item, about = papers.item_and_claim(path)
    known = {"status": reproduction.DONE, "partly_timed": True, "machine": recorded["host"]}
    return Sweep(folder.name, config, item, about, "", **known)


def finished(folders: Iterable[str | Path]) -> list[tuple[Sweep, Path]]:
    """Returns the finished sweeps of folders, of reproductions or single sweeps, with their own.

    Raises:
        InputError: a folder holds neither, or a size that is only for tests.
    """
    found = []
    for folder in map(Path, folders):
        if (folder / "config.json").exists():
            sweeps = [(_one_sweep(folder), folder)]
        else:
            record = reproduction.read(folder / "report.json")
            done = [sweep for sweep in record["sweeps"] if sweep.status in reproduction.FINISHED]
            sweeps = [(sweep, folder / sweep.name) for sweep in done]
        if any(papers.split_config(sweep.config)[1] == SIZE_FOR_TESTS for sweep, _ in sweeps):
            raise InputError(
                f"{folder} holds :{SIZE_FOR_TESTS}, which shows no claim; accepted: another scale"
            )
        found += sweeps
    return found


def _check(sweep: Sweep, folder: Path) -> None:
    """Raises unless a sweep's configuration is here, was run unchanged, and ran all points."""
    if not papers.split_config(sweep.config)[0].is_file():
        raise InputError("its configuration is not here; accepted: one below this folder")
    typed = files.read_record(folder)["command"]
    if changed := [word for word in typed if word.startswith("--config.")]:
        raise InputError(f"{folder} was run with {changed[0]}; accepted: a configuration as it is")
    # The one point of launch.run would replace the record of the whole sweep.
    if POINTS in changes(sweep.config, fingerprint(folder)):
        due = len(files.read_record(folder)["sweep"])
        raise InputError(
            f"{folder} has {due} run{'s' * (due != 1)}, not {POINTS} that its "
            "configuration describes; accepted: a sweep of launch.sweep"
        )


_MOST_ROWS = 60  # of a table on a page; longer ones are in the results


def _tables(report: Report) -> list[tuple[str, list[str], list[list[str]]]]:
    """Returns the headings, columns and cells of a report's tables, as text."""
    return [
        (heading, [*map(str, table)], [[*map(cell, row)] for row in table.itertuples(index=False)])
        for heading, table in report.tables
        if len(table) <= _MOST_ROWS
    ]


def _keep(place: Path, sweep: Sweep, folder: Path, results: bytes | None, report: Report) -> None:
    """Writes the record of a sweep whose report has just been made again."""
    done = reproduction.finished(sweep, folder.parent, sweep.machine or {})
    # A check that the program starts has no figures: they would be mistaken for results.
    was_run = not done.claims or any(claim["status"] != "not run" for claim in done.claims)
    captions = report.captions if was_run else {}
    # The command names folders of the machine that it ran on; the item lists the figures.
    done = done._replace(command="", pictures=[])
    tables, texts = _tables(report) if was_run else [], [*captions.values()]
    item = Item(done, [*captions], fingerprint(folder), captions=texts, tables=tables)
    gallery.keep(place, item, folder, results)


def publish(place: Path, found: Iterable[tuple[Sweep, Path]]) -> Iterator[str]:
    """Puts sweeps into the gallery, and yields a line on each that changes it or is refused.

    Of equal configurations the last counts. A sweep whose fingerprint the gallery has is skipped;
    the report of any other is made again first, so that all records come from the same code.
    """
    known = gallery.read(place)
    for sweep, folder in {sweep.config: (sweep, folder) for sweep, folder in found}.values():
        try:
            published = known.get(sweep.config)
            if published and published.fingerprint == fingerprint(folder):
                continue
            _check(sweep, folder)
            _keep(place, sweep, folder, pack(folder), remake(folder))
            yield f"published {sweep.config}"
        except InputError as error:
            yield f"left out {sweep.config}: {error}"


def renew(place: Path) -> Iterator[str]:
    """Makes reports of an earlier version again from kept results, and yields a line on each.

    A record with other settings than today's stays: its sweep has to be run again.
    """
    for config, item in gallery.read(place).items():
        changed = changes(config, item.fingerprint)
        if not item.results or changed != [REPORT]:
            continue
        results = place / item.folder / item.results
        try:
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch, item.sweep.name)
                unpack(results, folder)
                _keep(place, item.sweep, folder, results.read_bytes(), remake(folder))
            yield f"made {config} again"
        except InputError as error:
            yield f"left {config} as it was: {error}"
