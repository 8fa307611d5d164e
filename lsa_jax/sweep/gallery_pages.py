"""The gallery's pages, from its records: a first one, one a work, one a configuration."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lsa_jax.reporting import files, papers
from lsa_jax.reporting.claims import holm_rejects
from lsa_jax.reporting.gallery import Item
from lsa_jax.reporting.machine import duration, kinds
from lsa_jax.reporting.report import STATUSES
from lsa_jax.reporting.write import (
    Cell,
    claim_table,
    counts_in_words,
    environment,
    in_words,
    main_claims,
)
from lsa_jax.sweep.catalog import Entry, Variant
from lsa_jax.sweep.variants import SIZE_FOR_TESTS

# The line of a page in which the build of the documentation says that an item is stale.
MARK = "<!-- record: {} -->"


def command(variant: Variant) -> str:
    """Returns the command that runs a size of a configuration, with a folder for each size."""
    data = " --data_dir=DIR" if variant.data else ""
    path, size = papers.split_config(variant.config)
    folder = "-".join(filter(None, (path.stem, size)))
    begin = f"python -m launch.sweep --config={variant.config}"
    return f"{begin} \\\n    --workdir=runs/{folder}{data}"


def _by_claim(sizes: Sequence[Item]) -> list[list[tuple[str, Mapping[str, Any]]]]:
    """Returns each claim at the sizes that make it, in their order."""
    found: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for item in sizes:
        for claim in item.sweep.claims:
            found.setdefault(claim["item"], []).append((item.size, claim))
    return list(found.values())


def _claims(sizes: Sequence[Item]) -> list[dict[str, Any]]:
    """Returns the rows of a table of claims.

    A claim at several sizes has a row each, one below the other, its words in the first of them.
    """
    by_claim = _by_claim(sizes)
    columns, cells = claim_table(claim for at_sizes in by_claim for _, claim in at_sizes)
    made = (dict(zip(columns, row, strict=True)) for row in cells)
    rows = []
    for at_sizes in by_claim:
        for place, (size, _) in enumerate(at_sizes):
            row = next(made)
            if len(sizes) > 1:
                words = Cell("") if place else row["claim"]
                row = {"claim": words, "size": Cell(size)} | row | {"claim": words}
            rows.append(row)
    return rows


def _by_size(sizes: Sequence[Item]) -> list[Item]:
    """Returns sizes with the published one first, then the one that took longest."""
    return sorted(sizes, key=lambda item: (item.size == "full", item.seconds), reverse=True)


def _largest(sizes: Sequence[Item]) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns each claim at the largest size that makes it, with the name of that size.

    Claims that the small size alone makes are left out where the published one was run.
    """
    full = any(item.size == "full" for item in sizes)
    counted = [item for item in _by_size(sizes) if item.size != "small" or not full]
    return [at_sizes[0] for at_sizes in _by_claim(counted)]


def _correct(entries: Sequence[Entry]) -> None:
    """Marks the primary claims of a work that hold after Holm's correction over the whole work.

    Each claim counts at the largest size that makes it; at the others the mark is removed.
    """
    published = [[v.published for v in entry.variants if v.published] for entry in entries]
    counted = [claim for sizes in published for _, claim in _largest(sizes)]
    tested = [claim for claim in counted if claim.get("primary") and claim.get("p") is not None]
    for claim in (claim for sizes in published for item in sizes for claim in item.sweep.claims):
        claim["holm"] = None
    rejected = holm_rejects([claim["p"] for claim in tested])
    for claim, is_rejected in zip(tested, rejected, strict=True):
        claim["holm"] = is_rejected and claim["status"] == "shown"


def _machine(item: Item) -> str:
    host = item.sweep.machine or {}
    devices = kinds(host["devices"])
    devices.pop("cpu", None)
    parts = [host["cpu"], *(f"{count} x {kind}" for kind, count in devices.items())]
    if item.elsewhere:  # the host only recorded the sweep, or handed it to a scheduler
        parts = host["devices"]
    return ", ".join([*parts, f"JAX {host['versions']['jax']}"])


def _cost(item: Item) -> str:
    sweep = item.sweep
    cpu = f" ({duration(sweep.cpu_seconds)} of processor time)" if sweep.cpu_seconds else ""
    failed = f", of which {sweep.failed_runs} failed" if sweep.failed_runs else ""
    return f"{item.cost}{cpu}, {sweep.runs} run{'s' * (sweep.runs != 1)}{failed}"


def _size(variant: Variant, item: Item) -> dict[str, Any]:
    """Returns the contents of a configuration's page on one size."""
    return {
        "item": item,
        "command": command(variant),
        "mark": MARK.format(item.name),
        "counts": counts_in_words(item.sweep.claims),
        "cost": _cost(item),
        "machine": _machine(item),
        "figures": list(zip(item.pictures, item.captions, strict=True)),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    """Returns the contents of the pages on a configuration."""
    small = next((v for v in entry.variants if v.name == "small"), entry.variants[0])
    missing = [v for v in entry.variants if not v.published and v.name != SIZE_FOR_TESTS]
    published = [v.published for v in entry.variants if v.published]
    commands = {v.published.name: v for v in entry.variants if v.published}
    largest = _largest(published)
    sized = {claim["item"]: size for size, claim in largest}
    claims = [claim for _, claim in largest]
    primary = [claim for claim in claims if claim.get("primary")]
    folder = published[0].folder if published else ""
    return {
        "page": f"{folder}/{entry.path.stem}",
        "item": entry.item,
        "claim": entry.claim[:1].upper() + entry.claim[1:],
        "sizes": [_size(commands[item.name], item) for item in _by_size(published)],
        "claims": _claims(published),
        "has_primary": bool(primary),
        "first": list(map(in_words, main_claims(claims))),
        "primary": [in_words(claim) | {"size": sized[claim["item"]]} for claim in primary],
        "primary_claims": primary,
        "counts": counts_in_words(claims),
        "counted": Counter(claim["status"] for claim in claims),
        "full": any(item.size == "full" for item in published),
        "not_run": missing,
        "command": command(small),
    }


def _paper(name: str, found: Sequence[Entry]) -> dict[str, Any]:
    """Returns the contents of the pages on a paper."""
    own = [entry for entry in found if entry.paper == name]
    _correct(own)
    entries = list(map(_entry, own))
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
    """Writes the pages of all works and configurations, and returns their paths."""
    shown = [_paper(name, found) for name in papers.PAPERS]
    render = environment().get_template
    primary = [c for paper in shown for e in paper["published"] for c in e["primary_claims"]]
    counts = counts_in_words(primary)
    texts = {"index": render("gallery.html").render(papers=shown, statuses=STATUSES, counts=counts)}
    texts["figures"] = render("gallery_cards.html").render(papers=shown)
    for paper in shown:
        texts[paper["name"]] = render("gallery_paper.html").render(paper=paper)
        for entry in paper["published"]:
            texts[entry["page"]] = render("gallery_item.html").render(paper=paper, entry=entry)
    for name, text in texts.items():
        files.write_text(place / f"{name}.md", text)
    return [place / f"{name}.md" for name in texts]
