r"""Lists every configuration with its sizes, their published cost and required data.

Examples:
    python -m launch.list
    python -m launch.list --paper=lsa --under=10min
    python -m launch.list --data=none --shows=NTK
    python -m launch.list --data=mnist,cifar10 --under=1h
    python -m launch.list --paper=resnet --measure=90s --data_dir=data

Costs and results are those of the gallery's records; "about" is an estimate from a part of a sweep.
--measure runs each size that is not published for so long, and keeps its estimate in the gallery.
--under leaves out sizes without a cost, and compares with the lower bound where that alone is known
("at least"); --data names the available data, and leaves out sizes that need others; --shows has
words that the item, its claim or its results must contain.
"""

import textwrap
from pathlib import Path

from absl import flags

from launch import _cli
from lsa_jax.errors import InputError
from lsa_jax.reporting import machine, papers
from lsa_jax.sweep import catalog
from lsa_jax.sweep.variants import SIZE_FOR_TESTS

_cli.declare("data_dir")

_PAPER = flags.DEFINE_enum("paper", None, list(papers.PAPERS), "Only this paper's.")
_UNDER = flags.DEFINE_string("under", None, "Only sizes that take no longer, as 10min or 1h30min.")
_DATA = flags.DEFINE_list("data", None, "Only sizes that need none, or none but these: mnist,...")
_SHOWS = flags.DEFINE_string("shows", "", "Only configurations with all of these words.")
_CONFIGS = _cli.define_path("configs", "configs", "Folder of configurations.")
_GALLERY = _cli.define_path("gallery", "docs/gallery", "Folder with the gallery's records.")
_MEASURE = flags.DEFINE_string("measure", None, "Run unpublished sizes so long, as 90s.")


def _time(flag: flags.FlagHolder[str | None]) -> float | None:
    """Returns the seconds of a flag, or None where it was not given; raises for other text."""
    if flag.value is None:
        return None
    if (found := machine.seconds(flag.value)) is None:
        raise InputError(
            f"--{flag.name} is {flag.value!r}; accepted: a time such as 90s or 1h30min"
        )
    return found


def _chosen(found: list[catalog.Entry]) -> list[catalog.Entry]:
    """Returns the configurations that the flags accept; raises for wrong flags."""
    under = _time(_UNDER)
    if _DATA.value == []:
        raise InputError("--data is empty; accepted: none, or names of data sets: mnist,...")
    data = None if _DATA.value is None else catalog.check_data(_DATA.value, found)
    return catalog.matching(found, under, data, _SHOWS.value.split())


def _describe(entry: catalog.Entry) -> str:
    """Returns a configuration's lines: its name, its claim, and a line a size."""
    about = f"{entry.item}: {entry.claim}" if entry.claim else entry.item
    lines = [str(entry.path), textwrap.indent(textwrap.fill(about, 96), "  ")]
    rows = []
    for variant in entry.variants:
        size = variant.name if variant.name == "full" else f":{variant.name}"
        data = ", ".join(variant.data) or "none"
        status = variant.published.status if variant.published else ""
        rows.append((size, variant.cost, f"data: {data}", status))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        lines.append(("    " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def main() -> None:
    """Prints the configurations that the flags accept."""
    _cli.end_with_reader()
    given, place = _time(_MEASURE), Path(_GALLERY.value)
    found = catalog.entries(Path(_CONFIGS.value), place, _PAPER.value)
    chosen = _chosen(found)
    if given is not None:
        variants = [variant for entry in chosen for variant in entry.variants]
        unpublished = [v for v in variants if not v.published and v.name != SIZE_FOR_TESTS]
        for variant in unpublished:
            measured = catalog.measure(variant, given, _cli.data_dir(), place)
            print(f"{variant.config}: {measured}", flush=True)
        print(f"measured {len(unpublished)} of {len(variants)} sizes")
        return
    for entry in chosen:
        print(_describe(entry) + "\n")
    sizes = sum(len(entry.variants) for entry in chosen)
    print(f"{len(chosen)} of {len(found)} configurations, in {sizes} sizes")


if __name__ == "__main__":
    _cli.run(main)
