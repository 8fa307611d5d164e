"""The gallery's pages: a first one with a thumbnail an item, and one a paper, from its records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsa_jax.reporting import files, page, papers, reproduction
from lsa_jax.reporting.gallery import Item
from lsa_jax.reporting.machine import duration
from lsa_jax.sweep.catalog import Entry, Variant

_STATUSES = ("shown", "not shown", "undecided", "measured", "not run")
_FIRST_CLAIMS = 8  # reports give their main ones first; the others are folded away
# The line of a page in which the build of the documentation says that an item is stale.
MARK = "<!-- record: {} -->"


def command(variant: Variant) -> str:
    """Returns what runs a size of a configuration, on two lines."""
    data = " --data_dir=DIR" if variant.data else ""
    name = Path(variant.config.partition(":")[0]).stem
    begin = f"python -m launch.sweep --config={variant.config}"
    return f"{begin} \\\n    --workdir=runs/{name}{data}"


def _claims(claims: Sequence[Mapping[str, Any]]) -> list[list[dict[str, page.Cell]]]:
    """Returns the rows of claims in up to two parts: the first, and the others."""
    columns, cells = page.claim_table(claims)
    rows = [dict(zip(columns, row, strict=True)) for row in cells]
    return [part for part in (rows[:_FIRST_CLAIMS], rows[_FIRST_CLAIMS:]) if part]


def _machine(item: Item) -> str:
    host = item.sweep.machine or {}
    devices = Counter(device.partition("(")[2].rstrip(")") for device in host["devices"])
    devices.pop("cpu", None)
    parts = [host["cpu"], *(f"{count} x {kind}" for kind, count in devices.items())]
    return ", ".join([*parts, f"JAX {host['versions']['jax']}"])


def _cost(item: Item) -> str:
    sweep = item.sweep
    cpu = f" ({duration(sweep.cpu_seconds)} of processor time)" if sweep.cpu_seconds else ""
    failed = f", of which {sweep.failed_runs} failed" if sweep.failed_runs else ""
    return f"{item.cost}{cpu}, {sweep.runs} run{'s' * (sweep.runs != 1)}{failed}"


def _statuses(claims: Iterable[Mapping[str, Any]]) -> list[str]:
    count = Counter(claim["status"] for claim in claims)
    return [status for status in _STATUSES if count[status]] or ["no claims"]


def _size(variant: Variant, item: Item) -> dict[str, Any]:
    """Returns what the pages show of a configuration at one size."""
    return {
        "size": item.size,
        "command": command(variant),
        "mark": MARK.format(item.name),
        "folder": item.folder,
        "pictures": item.pictures,
        "claims": _claims(item.sweep.claims),
        "counts": reproduction.counts(item.sweep.claims),
        "statuses": _statuses(item.sweep.claims),
        "seconds": item.seconds,
        "cost": _cost(item),
        "took": reproduction.wall_time(item.sweep),
        "machine": _machine(item),
    }


def _shown(entry: Entry) -> dict[str, Any]:
    """Returns what the pages show of a configuration."""
    small = next((v for v in entry.variants if v.name == "small"), entry.variants[0])
    claim = entry.claim[:1].upper() + entry.claim[1:]
    return {
        "anchor": entry.path.stem,
        "item": entry.item,
        "claim": claim,
        "sizes": [_size(v, v.published) for v in entry.variants if v.published],
        "command": command(small),
    }


def _paper(name: str, found: Sequence[Entry]) -> dict[str, Any]:
    """Returns what the pages show of a paper."""
    entries = [_shown(entry) for entry in found if entry.paper == name]
    items = [v.published for e in found if e.paper == name for v in e.variants if v.published]
    claims = Counter(claim["status"] for item in items for claim in item.sweep.claims)
    return {
        "name": name,
        "title": papers.PAPERS[name].title,
        "published": [entry for entry in entries if entry["sizes"]],
        "missing": [entry for entry in entries if not entry["sizes"]],
        "counts": [claims[status] for status in _STATUSES],
    }


def write(place: Path, found: Sequence[Entry]) -> list[Path]:
    """Writes the gallery's pages and returns their paths.

    Args:
        place: its folder.
        found: all configurations, each size with its record if there is one, from
            `catalog.entries`.
    """
    shown = [_paper(name, found) for name in papers.PAPERS]
    made = page.environment()
    about = {"papers": shown, "statuses": _STATUSES}
    texts = {"index": made.get_template("gallery.html").render(about)}
    for paper in shown:
        texts[paper["name"]] = made.get_template("gallery_paper.html").render(paper=paper)
    paths = []
    for name, text in texts.items():
        paths.append(place / f"{name}.md")
        files.write_text(paths[-1], text)
    return paths
