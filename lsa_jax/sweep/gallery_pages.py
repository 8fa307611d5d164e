"""The gallery's pages: a first one with a thumbnail an item, and one a paper, from its records."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lsa_jax.reporting import files, page, papers, reproduction
from lsa_jax.reporting.gallery import Item
from lsa_jax.reporting.machine import duration, kinds
from lsa_jax.reporting.report import STATUSES
from lsa_jax.sweep.catalog import Entry, Variant
from lsa_jax.sweep.variants import SIZE_FOR_TESTS

_FIRST_CLAIMS = 8  # reports give their main ones first; the others are folded away
# The line of a page in which the build of the documentation says that an item is stale.
MARK = "<!-- record: {} -->"


def command(variant: Variant) -> str:
    """Returns what runs a size of a configuration, on two lines, each size in its own folder."""
    data = " --data_dir=DIR" if variant.data else ""
    path, size = papers.split_config(variant.config)
    folder = "-".join(filter(None, (path.stem, size)))
    begin = f"python -m launch.sweep --config={variant.config}"
    return f"{begin} \\\n    --workdir=runs/{folder}{data}"


def _by_claim(sizes: Sequence[Item]) -> list[list[tuple[str, Mapping[str, Any]]]]:
    """Returns each claim as the sizes that make it have it, in their order."""
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for item in sizes:
        for claim in item.sweep.claims:
            found.setdefault(claim["item"], []).append((item.size, claim))
    return list(found.values())


def _claims(sizes: Sequence[Item]) -> list[dict[str, Any]]:
    """Returns the rows of claims in up to two parts, the first and the others.

    Of several sizes a claim has a row each, one below the other, its words in the first of them.
    """
    by_claim = _by_claim(sizes)
    columns, cells = page.claim_table(claim for told in by_claim for _, claim in told)
    rows = (dict(zip(columns, row, strict=True)) for row in cells)

    def rows_of(told: Sequence[tuple[str, Any]]) -> list[dict[str, page.Cell]]:
        made = [(size, next(rows)) for size, _ in told]
        if len(sizes) == 1:
            return [row for _, row in made]
        words = [made[0][1]["claim"], *[page.Cell("")] * (len(made) - 1)]
        return [
            {"claim": claim, "size": page.Cell(size)} | {n: row[n] for n in row if n != "claim"}
            for claim, (size, row) in zip(words, made, strict=True)
        ]

    parts = filter(None, (by_claim[:_FIRST_CLAIMS], by_claim[_FIRST_CLAIMS:]))
    return [{"claims": len(part), "rows": [r for t in part for r in rows_of(t)]} for part in parts]


def _counted(sizes: Sequence[Item]) -> Counter[str]:
    """Returns how many claims have each status, each at the largest size that makes it.

    That is the published one, or else the one that took longest.
    """
    by_length = sorted(sizes, key=lambda item: (item.size == "full", item.seconds), reverse=True)
    return Counter(told[0][1]["status"] for told in _by_claim(by_length))


def _machine(item: Item) -> str:
    host = item.sweep.machine or {}
    devices = kinds(host["devices"])
    devices.pop("cpu", None)
    parts = [host["cpu"], *(f"{count} x {kind}" for kind, count in devices.items())]
    if item.elsewhere:  # the host is the one that recorded it, or that handed it to a scheduler
        parts = host["devices"]
    return ", ".join([*parts, f"JAX {host['versions']['jax']}"])


def _cost(item: Item) -> str:
    sweep = item.sweep
    cpu = f" ({duration(sweep.cpu_seconds)} of processor time)" if sweep.cpu_seconds else ""
    failed = f", of which {sweep.failed_runs} failed" if sweep.failed_runs else ""
    return f"{item.cost}{cpu}, {sweep.runs} run{'s' * (sweep.runs != 1)}{failed}"


def _statuses(claims: Iterable[Mapping[str, Any]]) -> list[str]:
    count = Counter(claim["status"] for claim in claims)
    return [status for status in STATUSES if count[status]] or ["no claims"]


def _size(variant: Variant, item: Item) -> dict[str, Any]:
    """Returns what the pages show of a configuration at one size."""
    return {
        "size": item.size,
        "command": command(variant),
        "mark": MARK.format(item.name),
        "results": item.results and f"{item.folder}/{item.results}",
        "folder": item.folder,
        "pictures": item.pictures,
        "counts": reproduction.counts(item.sweep.claims),
        "statuses": _statuses(item.sweep.claims),
        "seconds": item.seconds,
        "cost": _cost(item),
        "took": item.took,
        "machine": _machine(item),
    }


def _shown(entry: Entry) -> dict[str, Any]:
    """Returns what the pages show of a configuration."""
    small = next((v for v in entry.variants if v.name == "small"), entry.variants[0])
    claim = entry.claim[:1].upper() + entry.claim[1:]
    published = [v.published for v in entry.variants if v.published]
    return {
        "anchor": entry.path.stem,
        "item": entry.item,
        "claim": claim,
        "sizes": [_size(v, v.published) for v in entry.variants if v.published],
        "claims": _claims(published),
        "counted": _counted(published),
        "full": any(item.size == "full" for item in published),
        "not_run": [
            v.config for v in entry.variants if not v.published and v.name != SIZE_FOR_TESTS
        ],
        "command": command(small),
    }


def _paper(name: str, found: Sequence[Entry]) -> dict[str, Any]:
    """Returns what the pages show of a paper."""
    entries = [_shown(entry) for entry in found if entry.paper == name]
    claims = sum((entry["counted"] for entry in entries), Counter())
    return {
        "name": name,
        "title": papers.PAPERS[name].title,
        "published": [entry for entry in entries if entry["sizes"]],
        "missing": [entry for entry in entries if not entry["sizes"]],
        "full": sum(entry["full"] for entry in entries),
        "counts": [claims[status] for status in STATUSES],
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
    about = {"papers": shown, "statuses": STATUSES}
    texts = {"index": made.get_template("gallery.html").render(about)}
    for paper in shown:
        texts[paper["name"]] = made.get_template("gallery_paper.html").render(paper=paper)
    paths = []
    for name, text in texts.items():
        paths.append(place / f"{name}.md")
        files.write_text(paths[-1], text)
    return paths
