"""The gallery's records: results and figures of each configuration and size.

A record is `FOLDER/NAME.json` below the gallery's folder, with its figures and results next to it.
All pages are made of records, and records of sweeps' folders alone.
"""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, papers, reproduction
from lsa_jax.reporting.machine import cores, duration, kinds
from lsa_jax.reporting.reproduction import Sweep
from lsa_jax.reporting.write import counts_in_words

MOST_BYTES = 7_000_000  # of all figures
_FIGURES = (".svg", ".png")
_RESULTS = ".results.json.xz"
MOST_PICTURE_BYTES = 80_000
_COLOURS = 128
_SMALLER = 0.85
_METADATA = re.compile(r"<metadata>.*?</metadata>|<!--.*?-->|<!DOCTYPE[^>]*>", re.DOTALL)
_PATH = re.compile(r'(?<=[ \n][dxy]=")[^"]*')
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")


class Item(NamedTuple):
    """The record of one configuration and size."""

    sweep: Sweep  # its results
    pictures: list[str]  # file names of its figures, the main one first
    fingerprint: dict[str, Any]  # of its settings, report and results, see `sweep.publishing`
    results: str = ""  # file name of the packed results; empty where there are none
    captions: list[str] = []  # of the figures, in their order
    # Of the report: heading, columns and rows of cells, as text.
    tables: list[tuple[str, list[str], list[list[str]]]] = []

    @property
    def configuration(self) -> Path:
        """The file of the configuration."""
        return papers.split_config(self.sweep.config)[0]

    @property
    def size(self) -> str:
        """The name of its size."""
        return papers.split_config(self.sweep.config)[1] or "full"

    @property
    def name(self) -> str:
        """The place of its record below the gallery, without ending."""
        folder = self.configuration.parent.name
        if papers.owner(folder) == papers.BEYOND:
            folder = papers.BEYOND
        ending = "" if self.size == "full" else f"-{self.size}"
        return f"{folder}/{self.configuration.stem}{ending}"

    @property
    def folder(self) -> str:
        """Where its record and figures lie below the gallery."""
        return self.name.partition("/")[0]

    @property
    def seconds(self) -> float:
        """The time by the clock; where a part was not timed, a lower bound."""
        return max(self.sweep.wall_seconds, self.sweep.run_seconds)

    @property
    def elsewhere(self) -> bool:
        """Whether it ran as tasks on machines that its record does not know."""
        devices = (self.sweep.machine or {}).get("devices", [])
        return bool(devices) and not kinds(devices)

    @property
    def took(self) -> str:
        """The time by the clock, in words; of tasks, the sum of their runs' times."""
        if self.elsewhere:
            return f"{duration(self.sweep.run_seconds)} of its tasks together"
        return reproduction.wall_time(self.sweep)

    @property
    def cost(self) -> str:
        """The time by the clock and the number of cores, in words."""
        machine = self.sweep.machine or {}
        return self.took if self.elsewhere else f"{self.took} on {cores(machine['cores'])}"

    @property
    def status(self) -> str:
        """How many of its claims hold, in words."""
        failed = f"; {self.sweep.reason}" if self.sweep.failed_runs else ""
        return counts_in_words(self.sweep.claims).removesuffix(".") + failed


def keep(gallery: Path, item: Item, folder: Path, results: bytes | None) -> None:
    """Writes an item's results, figures and record, and removes its other old files.

    The item's `pictures` are names without ending, of the sweep's folder; the results come from
    `sweep.publishing.pack`.

    Raises:
        InputError: all figures together would take more than `MOST_BYTES`; the record and figures
            are as they were.
    """
    place = gallery / item.name
    drawn = {name: small_picture(folder / name) for name in item.pictures}
    figures = {f"{place.name}.{name}{end}": content for name, (end, content) in drawn.items()}
    kept = {f"{place.name}{_RESULTS}": results} if results else {}
    old = [path for path in place.parent.glob(f"{place.name}.*") if path.suffix != ".json"]
    before = sum(path.stat().st_size for path in old if path.suffix in _FIGURES)
    total = size(gallery) - before + sum(map(len, figures.values()))
    if total > MOST_BYTES:
        raise InputError(
            f"the figures in {gallery} would take {total:,} bytes with those of {item.name}; "
            f"accepted: {MOST_BYTES:,}"
        )
    made = figures | kept
    for name, content in made.items():
        files.write_bytes(place.parent / name, content)
    item = item._replace(pictures=list(figures), results="".join(kept))
    record = item._asdict() | {"sweep": item.sweep._asdict()}
    files.write_json(place.parent / f"{place.name}.json", record)
    for path in old:  # last: a record never names a file that is not there
        if path.name not in made:
            path.unlink()


def size(gallery: Path) -> int:
    """Returns how many bytes a gallery's figures take."""
    found = (path for ending in _FIGURES for path in gallery.glob(f"*/*{ending}"))
    return sum(path.stat().st_size for path in found)


def _item(path: Path, record: Mapping[str, Any]) -> Item:
    item = Item(**record | {"sweep": Sweep(**record["sweep"])})
    named = [*item.pictures, *filter(None, [item.results])]
    if not all((path.parent / name).is_file() for name in named):
        raise ValueError
    return item


def read(gallery: Path) -> dict[str, Item]:
    """Returns the items of a gallery, by the value of `--config`.

    Raises:
        InputError: there is no such folder, or a record is damaged or lacks a file.
    """
    if not gallery.is_dir():
        raise InputError(f"--gallery={gallery} is no folder; accepted: one that is there")
    found = {}
    for path in sorted(gallery.glob("*/*.json")):
        try:
            item = _item(path, files.read_json(path))
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{path} is no record of the gallery, or damaged, or lacks a file; remove it and "
                "publish its sweep again"
            ) from None
        found[item.sweep.config] = item
    return found


def shorter(svg: str) -> str:
    """Returns a drawing without metadata, line ends and digits below hundredths of a point.

    Only the lines' own coordinates are rounded: a scale of letters has digits that matter.
    """
    svg = _METADATA.sub("", svg)
    svg = _PATH.sub(lambda path: _LONG_NUMBER.sub(_rounded, " ".join(path[0].split())), svg)
    return re.sub(r"\s*\n\s*", "\n", svg)


def _rounded(number: re.Match) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


def _shrunk(path: Path) -> bytes:
    """Returns a PNG with fewer colours, and smaller as long as it takes more bytes than it may."""
    from PIL import Image

    image = Image.open(path).convert("RGB")
    while True:
        buffer = io.BytesIO()
        # First by how far colours are apart, so that those of few pixels stay: a scale's ends, thin
        # lines. Then moved to the means of their pixels, as large areas would have another tint.
        few = image.quantize(_COLOURS, method=Image.Quantize.MAXCOVERAGE, kmeans=3)
        few.save(buffer, "png", optimize=True)
        if buffer.tell() <= MOST_PICTURE_BYTES:
            return buffer.getvalue()
        image = image.resize([max(1, int(side * _SMALLER)) for side in image.size])


def small_picture(path: Path) -> tuple[str, bytes]:
    """Returns a figure's ending and bytes, at most `MOST_PICTURE_BYTES`: its SVG, or else a PNG.

    The path is that of the figure without ending; both files exist.
    """
    drawn = shorter(path.with_name(path.name + ".svg").read_text("utf-8")).encode()
    if len(drawn) <= MOST_PICTURE_BYTES:
        return ".svg", drawn
    return ".png", _shrunk(path.with_name(path.name + ".png"))
