"""Publishes finished sweeps in the gallery, and renews published reports."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pandas as pd

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, gallery, papers, pictures, reproduction
from lsa_jax.reporting.gallery import Item
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.reproduction import Sweep
from lsa_jax.reporting.write import cell
from lsa_jax.sweep import config_files, fingerprints, kept
from lsa_jax.sweep.variants import SIZE_FOR_TESTS


def _one_sweep(folder: Path) -> Sweep:
    """Returns a sweep that was run by itself; its cost is the sum of its runs' own times."""
    recorded = files.read_json(folder / "config.json")
    config = config_files.named_in(recorded["command"])
    path, scale = papers.split_config(config)
    if not path.is_file():
        raise InputError(
            f"{folder} has the configuration {config!r}, which is not here; accepted: one below "
            "this folder"
        )
    if scale == SIZE_FOR_TESTS:
        return Sweep(folder.name, config, "", "", "")  # refused by its scale
    results, due = folder / "results.csv", len(recorded["sweep"])
    done = len(pd.read_csv(results)) if results.exists() else 0
    # A report can exist before all runs are done.
    if "host" not in recorded or done < due or not (folder / "report.json").exists():
        raise InputError(
            f"{folder} is not finished, or of an earlier version ({done} of {due} runs); accepted: "
            "a sweep with its report and the machine it ran on"
        )
    item, about = papers.item_and_claim(path)
    known = {"status": reproduction.DONE, "partly_timed": True, "machine": recorded["host"]}
    return Sweep(folder.name, config, item, about, "", **known)


def finished(folders: Iterable[str | Path]) -> list[tuple[Sweep, Path]]:
    """Returns the finished sweeps of folders, each with its own folder.

    Args:
        folders: of reproductions or of single sweeps.

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
    typed = files.read_json(folder / "config.json")["command"]
    if changed := [word for word in typed if word.startswith("--config.")]:
        raise InputError(f"{folder} was run with {changed[0]}; accepted: a configuration as it is")
    # The one point of launch.run would replace the record of the whole sweep.
    if fingerprints.POINTS in fingerprints.changed(sweep.config, fingerprints.of_folder(folder)):
        due = len(files.read_json(folder / "config.json")["sweep"])
        raise InputError(
            f"{folder} has {due} run{'s' * (due != 1)}, not {fingerprints.POINTS} that its "
            "configuration describes; accepted: a sweep of launch.sweep"
        )


_MOST_ROWS = 60  # of a table on a page; longer ones are in the results


def _tables(report: Report) -> list[tuple[str, list[str], list[list[str]]]]:
    """Returns the headings, columns and cells of a report's tables, as text."""
    return [
        (
            heading,
            list(map(str, table)),
            [list(map(cell, row)) for row in table.itertuples(index=False)],
        )
        for heading, table in report.tables
        if len(table) <= _MOST_ROWS
    ]


def _keep(place: Path, sweep: Sweep, folder: Path, results: bytes | None, report: Report) -> None:
    """Writes the record of a sweep whose report has just been made again."""
    done = reproduction.finished(sweep, folder.parent, sweep.machine or {})
    # A check that the program starts has no figures: they would be mistaken for results.
    was_run = not done.claims or any(claim["status"] != "not run" for claim in done.claims)
    drawn = pictures.names(folder) if was_run else []
    # The command names folders of the machine that it ran on; the item lists the figures.
    done = done._replace(command="", pictures=[])
    item = Item(done, drawn, fingerprints.of_folder(folder))
    captions = [report.captions[name] for name in drawn]
    item = item._replace(captions=captions, tables=_tables(report) if was_run else [])
    gallery.keep(place, item, folder, results)


def publish(
    place: Path, found: Iterable[tuple[Sweep, Path]], remake: Callable[[Path], Report]
) -> Iterator[str]:
    """Puts sweeps into the gallery, and yields a line on each that changes it or is refused.

    A sweep whose fingerprint the gallery has already is skipped; the report of any other is made
    again first, so that all records come from the same code.

    Args:
        place: the gallery's folder; its other records stay.
        found: from `finished`; of equal configurations and sizes the last counts.
        remake: writes a folder's report again and returns it.
    """
    known = gallery.read(place)
    for sweep, folder in {sweep.config: (sweep, folder) for sweep, folder in found}.values():
        try:
            published = known.get(sweep.config)
            if published and published.fingerprint == fingerprints.of_folder(folder):
                continue
            _check(sweep, folder)
            report = remake(folder)
            _keep(place, sweep, folder, kept.pack(folder), report)
            yield f"published {sweep.config}"
        except InputError as error:
            yield f"left out {sweep.config}: {error}"


def renew(place: Path, remake: Callable[[Path], Report]) -> Iterator[str]:
    """Makes reports of an earlier version again from kept results, and yields a line on each.

    A record with other settings than today's stays: its sweep has to be run again.

    Args:
        place: the gallery's folder.
        remake: writes a folder's report again and returns it.
    """
    for config, item in gallery.read(place).items():
        changed = fingerprints.changed(config, item.fingerprint)
        if not item.results or changed != [fingerprints.REPORT]:
            continue
        results = place / item.folder / item.results
        try:
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch, item.sweep.name)
                kept.unpack(results, folder)
                report = remake(folder)
                _keep(place, item.sweep, folder, results.read_bytes(), report)
            yield f"made {config} again"
        except InputError as error:
            yield f"left {config} as it was: {error}"
