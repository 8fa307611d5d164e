"""Takes finished sweeps into the gallery, and keeps what it says of them up with the code."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pandas as pd

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, gallery, papers, pictures, reproduction
from lsa_jax.reporting.gallery import Item
from lsa_jax.reporting.reproduction import Sweep
from lsa_jax.sweep import config_files, fingerprints, kept
from lsa_jax.sweep.fingerprints import CODE_OF_REPORT, POINTS
from lsa_jax.sweep.variants import SIZE_FOR_TESTS


def _one_sweep(folder: Path) -> Sweep:
    """Returns a sweep that was run by itself; its runs' own times are what is known of its cost."""
    recorded = files.read_json(folder / "config.json")
    config = config_files.named_in(recorded["command"])
    if not papers.split_config(config)[0].is_file():
        raise InputError(
            f"{folder} has the configuration {config!r}, which is not here; accepted: one below "
            "this folder"
        )
    results, due = folder / "results.csv", len(recorded["sweep"])
    done = len(pd.read_csv(results)) if results.exists() else 0
    # A report may have been made of the runs that were done.
    if "host" not in recorded or done < due or not (folder / "report.json").exists():
        raise InputError(
            f"{folder} is not finished, or of an earlier version ({done} of {due} runs); accepted: "
            "a sweep with its report and the machine it ran on"
        )
    item, about = papers.item_and_claim(papers.split_config(config)[0])
    known = {"status": reproduction.DONE, "partly_timed": True, "machine": recorded["host"]}
    return Sweep(folder.name, config, item, about, "", **known)


def _sweeps_in(folder: Path) -> list[tuple[Sweep, Path]]:
    """Returns the finished sweeps of a reproduction's folder, or the one whose own folder it is."""
    if (folder / "config.json").exists():
        sweep = _one_sweep(folder)
        scale = papers.split_config(sweep.config)[1]
        found = [(sweep, folder)]
    else:
        record = reproduction.read(folder / "report.json")
        done = [sweep for sweep in record["sweeps"] if sweep.status in reproduction.FINISHED]
        scale, found = record["scale"], [(sweep, folder / sweep.name) for sweep in done]
    if scale == SIZE_FOR_TESTS:
        raise InputError(
            f"{folder} holds :{SIZE_FOR_TESTS}, which shows no claim; accepted: another scale"
        )
    return found


def finished(folders: Iterable[str | Path]) -> list[tuple[Sweep, Path]]:
    """Returns the finished sweeps of folders, of reproductions or of single sweeps, each with its.

    Raises:
        InputError: a folder holds neither, or what can show no claim.
    """
    return [found for folder in map(Path, folders) for found in _sweeps_in(folder)]


def _check(sweep: Sweep, folder: Path) -> None:
    """Raises unless a sweep is of a configuration that is here, as it is."""
    if not papers.split_config(sweep.config)[0].is_file():
        raise InputError("its configuration is not here; accepted: one below this folder")
    typed = files.read_json(folder / "config.json")["command"]
    if changed := [word for word in typed if word.startswith("--config.")]:
        raise InputError(f"{folder} was run with {changed[0]}; accepted: a configuration as it is")
    # Such as the one point of launch.run, which would replace the record of them all.
    if POINTS in fingerprints.changed(sweep.config, fingerprints.of_folder(folder)):
        due = len(files.read_json(folder / "config.json")["sweep"])
        raise InputError(
            f"{folder} has {due} run{'s' * (due != 1)}, not {POINTS} that its "
            "configuration describes; accepted: what launch.sweep runs"
        )


def _item(sweep: Sweep, folder: Path, **fingerprint: str) -> Item:
    """Returns what a sweep came to, by the report in its folder."""
    told = reproduction.finished(sweep, folder.parent, sweep.machine or {})
    # The command names folders of the machine that it ran on; figures are listed beside.
    told = told._replace(command="", pictures=[])
    return Item(told, _figures(told, folder), fingerprints.of_folder(folder) | fingerprint)


def _figures(told: Sweep, folder: Path) -> list[str]:
    """Returns the names of a sweep's figures; none where all of its claims are still to be run.

    It has only shown that it starts then, and its figures would be mistaken for results.
    """
    if told.claims and all(claim["status"] == "not run" for claim in told.claims):
        return []
    return pictures.names(folder)


def publish(
    place: Path, found: Iterable[tuple[Sweep, Path]], remake: Callable[[Path], None]
) -> Iterator[str]:
    """Puts sweeps into the gallery, and says of each that is not there yet what became of it.

    One whose settings, report and results are those that the gallery has is left alone; the report
    of any other is made anew first, so that all that is published is of one code.

    Args:
        place: the gallery's folder; what it has of other configurations and sizes stays.
        found: from `finished`; of the same configuration and size the last counts.
        remake: writes a folder's report anew.
    """
    known = gallery.read(place)
    for sweep, folder in {sweep.config: (sweep, folder) for sweep, folder in found}.values():
        try:
            published = known.get(sweep.config)
            if published and published.fingerprint == fingerprints.of_folder(folder):
                continue
            _check(sweep, folder)
            stale, reason = {}, ""
            try:
                remake(folder)
            except InputError as error:  # as it lies there, which the pages mark as stale
                stale, reason = {"report": ""}, f", with the report as it was: {error}"
            gallery.keep(place, _item(sweep, folder, **stale), folder, kept.pack(folder))
            yield f"published {sweep.config}{reason}"
        except InputError as error:
            yield f"left out {sweep.config}: {error}"


def renew(place: Path, remake: Callable[[Path], None]) -> Iterator[str]:
    """Makes anew what today's code would report otherwise, from the results that the gallery keeps.

    Says of each what became of it. One whose settings have changed has to be run again, and stays.

    Args:
        place: the gallery's folder.
        remake: writes a folder's report anew.
    """
    for config, item in gallery.read(place).items():
        if not item.results or fingerprints.changed(config, item.fingerprint) != [CODE_OF_REPORT]:
            continue
        results = place / item.folder / item.results
        try:
            with tempfile.TemporaryDirectory() as scratch:
                folder = Path(scratch, item.sweep.name)
                kept.unpack(results, folder)
                remake(folder)
                gallery.keep(place, _item(item.sweep, folder), folder, results.read_bytes())
            yield f"made {config} anew"
        except InputError as error:
            yield f"left {config} as it was: {error}"
