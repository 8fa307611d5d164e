"""The catalogue of configurations: their sizes, published costs and required data."""

import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections

from lsa_jax.errors import BAD_INPUT, MISSING_DATA, InputError
from lsa_jax.reporting import files, gallery, machine, papers, reproduction
from lsa_jax.reporting.gallery import Item
from lsa_jax.sweep import config_files
from lsa_jax.sweep.fields import flatten
from lsa_jax.sweep.variants import SIZE_FOR_TESTS

_BUNDLED = ("digits", "stars", "gaussian", "gaussian_mixture", "none")  # these need no folder
_COSTS = "costs.json"  # in the gallery's folder
_LEFT = re.compile(r", ([^,]+) spent, about ([^,]+) left")
_PUBLISHED = ("item", "paper", "ours", "status")  # of a claim


class Estimate(NamedTuple):
    """The cost of a size that is not published, from a part of it.

    Attributes:
        spent: seconds that were run.
        seconds: of the whole run, by the sweep's own progress; None where no point moved on.
        cores: of the machine.
        cpu: its processor.
        missing: whether nothing was run, as data are missing.
    """

    spent: float
    seconds: float | None
    cores: int
    cpu: str
    missing: bool = False

    def __str__(self) -> str:
        if self.missing:
            return "not measured: its data were missing"
        if self.seconds is None:
            return f"not known after {machine.duration(self.spent)}"
        about = float(f"{self.seconds:.2g}")
        return (
            f"about {machine.duration(about)} on {machine.cores(self.cores)} (from its first runs)"
        )


class Variant(NamedTuple):
    """One size of a configuration."""

    config: str  # the value of --config
    name: str  # "full", "small", "quick" or a name of the configuration's own
    data: tuple[str, ...]  # required contents of --data_dir, sorted
    published: Item | None  # its record in the gallery
    estimate: Estimate | None = None  # its cost from a part of it

    @property
    def cost(self) -> str:
        """The published cost in words, or else the estimated one."""
        if self.published:
            return self.published.cost
        if self.name == SIZE_FOR_TESTS:
            return "seconds, for tests"
        return str(self.estimate) if self.estimate else "not published"

    @property
    def seconds(self) -> float | None:
        """The published cost by the clock, or a lower bound of it; else the estimated one."""
        if self.published:
            return self.published.seconds
        return self.estimate.seconds if self.estimate else None

    @property
    def words(self) -> list[str]:
        """The words of its published status and claims."""
        if not self.published:
            return []
        told = [str(claim[name]) for claim in self.published.sweep.claims for name in _PUBLISHED]
        return [self.published.status, *told]


class Entry(NamedTuple):
    """One configuration: its paper or `papers.BEYOND`, its item and claim, and its sizes."""

    path: Path
    paper: str
    item: str
    claim: str
    variants: list[Variant]


def published_seconds(words: Sequence[str], place: Path) -> dict[str, float]:
    """Returns the published seconds of a sweep's runs by id; none where settings differ.

    `words` are --config=... and the fields of it that are set, `place` is the gallery's folder.
    """
    path, variant = papers.split_config(words[0].partition("=")[2])
    own = all(word.startswith("--config.sweep.") for word in words[1:])
    root = place.resolve().parents[1]
    if not own or not place.is_dir() or not path.resolve().is_relative_to(root):
        return {}
    named = config_files.name(path.resolve().relative_to(root), variant or "full")
    item = gallery.read(place).get(named)
    if not item or not item.results:
        return {}
    from lsa_jax.sweep.publishing import read_kept  # only here, as it imports jax

    results = (run["result"] for run in read_kept(place / item.folder / item.results)["runs"])
    return {result["id"]: result["seconds"] for result in results}


def estimates(place: Path) -> dict[str, Estimate]:
    """Returns the measured parts of sizes that are not published, by the value of `--config`."""
    path = place / _COSTS
    found = files.read_json(path) if path.exists() else {}
    return {config: Estimate(**values) for config, values in found.items()}


def measure(variant: Variant, given: float, data_dir: Path | None, place: Path) -> Estimate:
    """Runs a size for a while, keeps its estimated cost in the gallery, and returns it.

    On one core other programs are left out of the estimate: it is of processor time.

    Args:
        variant: the size.
        given: most seconds.
        data_dir: folder of data sets.
        place: the gallery's folder.

    Raises:
        InputError: its sweep fails for another reason than missing data.
    """
    start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as scratch:
        named, folder = [f"--config={variant.config}"], Path(scratch, "run")
        command = [sys.executable, *reproduction.sweep_command(named, folder, data_dir)]
        try:
            ended = subprocess.run(command, capture_output=True, check=False, timeout=given)
            status, printed = ended.returncode, ended.stderr.decode()
        except subprocess.TimeoutExpired as stopped:
            status, printed = None, (stopped.stderr or b"").decode()
    spent = time.monotonic() - start
    missing = status == BAD_INPUT and f"error: {MISSING_DATA}" in printed
    if status and not missing:
        raise InputError(f"{variant.config} fails: {printed.strip().rpartition(chr(10))[2]}")
    now, cores = resource.getrusage(resource.RUSAGE_CHILDREN), machine.count_cores()
    busy = (now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime) / spent
    seconds = spent if status == 0 else None
    if seconds is None and (progress := _LEFT.findall(printed)):
        seconds = sum(map(machine.seconds, progress[-1]))  # spent and left, as last printed
    if seconds is not None and cores == 1:
        seconds *= min(1.0, busy)
    numbers = round(spent, 1), None if seconds is None else round(seconds, 1)
    found = Estimate(*numbers, cores, machine.describe_host()["cpu"], missing)
    every = estimates(place) | {variant.config: found}
    kept = {config: every[config]._asdict() for config in sorted(every)}
    files.write_json(place / _COSTS, kept)
    return found


def needed_data(
    config: ml_collections.ConfigDict, sweep: Iterable[Mapping[str, Any]]
) -> tuple[str, ...]:
    """Returns the names of the data that the points of a sweep read, sorted.

    A data set has its name for `launch.data`, a folder of the user's "NAME/", a Hugging Face data
    set "hf:PATH". All points share the configuration; `sweep` has the swept settings of each.
    """
    shared = flatten(config)
    return tuple(sorted({name for own in sweep for name in _needed_by_point(shared | dict(own))}))


def _needed_by_point(fields: Mapping[str, Any]) -> Iterator[str]:
    for name in ("data.dataset", "data.injected"):
        named = fields.get(name)
        if named == "folder":
            yield f"{fields['data.folder']}/"
        elif named is not None and named not in _BUNDLED:
            yield named
    if fields.get("data.background") == "photographs":
        yield f"{fields['data.photographs']}/"
    for task in fields.get("downstream.tasks", ()):
        if task != "last_word":  # made of the text
            yield f"{task.partition(':')[0]}.jsonl"
    for source in fields.get("data.sources", ()):
        yield source if source.startswith("hf:") else f"{source}/"


def _variants(
    path: Path, published: Mapping[str, Item], known: Mapping[str, Estimate]
) -> list[Variant]:
    module = config_files.load(path)
    found = []
    for name in config_files.variants(module):
        config = config_files.config_of(module, "" if name == "full" else name)
        written = config_files.name(path, name)
        data = needed_data(config, config_files.sweep_of(module, config))
        found.append(Variant(written, name, data, published.get(written), known.get(written)))
    return found


def entries(configs: Path, place: Path, paper: str | None = None) -> list[Entry]:
    """Returns the configurations of one paper, or all, with the records of a gallery's folder.

    Raises:
        InputError: there are none, or one of the files or of the gallery's records is damaged.
    """
    published, known = gallery.read(place), estimates(place)
    names = [paper] if paper else papers.PAPERS
    found = [(name, path) for name in names for path in papers.configurations(name, configs)]
    return [
        Entry(path, name, *papers.item_and_claim(path), _variants(path, published, known))
        for name, path in found
    ]


def matching(
    found: list[Entry],
    under: float | None = None,
    data: frozenset[str] | None = None,
    shows: Iterable[str] = (),
) -> list[Entry]:
    """Returns the configurations that have an accepted size, each with those sizes alone.

    Args:
        found: from `entries`.
        under: most seconds of the published or estimated cost.
        data: names of the available data; a size may need nothing else.
        shows: words, each the beginning of one in the item, the claim or the published results.
    """

    def accepts(entry: Entry, variant: Variant) -> bool:
        if under is not None and (variant.seconds is None or variant.seconds > under):
            return False
        if data is not None and not data.issuperset(variant.data):
            return False
        text = " ".join((entry.item, entry.claim, entry.path.stem, *variant.words)).lower()
        return all(re.search(rf"(?<!\w){re.escape(word.lower())}", text) for word in shows)

    left = (
        entry._replace(variants=[v for v in entry.variants if accepts(entry, v)]) for entry in found
    )
    return [entry for entry in left if entry.variants]


def check_data(given: list[str], found: list[Entry]) -> frozenset[str]:
    """Returns the names of data that were given; "none" stands for no data, as bundled ones do.

    Raises:
        InputError: no configuration needs data of such a name.
    """
    known = sorted({name for entry in found for v in entry.variants for name in v.data})
    for name in given:
        if name not in (*known, *_BUNDLED):
            raise InputError(f"--data has {name!r}; accepted: none, or of {', '.join(known)}")
    return frozenset(given)


def swept(points: list[Any]) -> dict[str, list[Any]]:
    """Returns the swept settings of points by dotted name, each with its different values."""
    found: dict[str, list[Any]] = {}
    for point in points:
        for name, value in point.settings.items():
            values = found.setdefault(name, [])
            if value not in values:
                values.append(value)
    return found
