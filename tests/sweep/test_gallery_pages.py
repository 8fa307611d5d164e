"""Pages of the gallery have our results next to the paper's.

The committed pages are compared with the records in test_catalog.py.
"""

import re
from pathlib import Path

import pytest
from published_sweeps import CLAIMS, publish

from lsa_jax.reporting import gallery
from lsa_jax.sweep import gallery_pages
from lsa_jax.sweep.catalog import Entry, Variant


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


@pytest.mark.parametrize(
    "sizes, shown",
    [
        ({"full": (2, "shown"), "small": (9, "not shown")}, "holds"),
        ({"small": (2, "shown"), "medium": (9, "not shown")}, "does not hold"),
        ({"small": (9, "shown"), "medium": (2, "not shown")}, "holds"),
    ],
)
def test_a_claim_counts_once_at_the_published_size_or_the_longest(place, sizes, shown):
    told = {n: (seconds, [claim("a gap", 1, is_)]) for n, (seconds, is_) in sizes.items()}
    gallery_pages.write(place[0], sizes_of(place, **told))
    page = (place[0] / "index.md").read_text()
    count = {name: int(n) for name, n in re.findall(r'data-label="([^"]*)">(\d+)<', page)[:6]}
    others = {"holds", "does not hold"} - {shown}
    assert count[shown] == 1 and count[others.pop()] == 0
    assert count["at the published size"] == ("full" in sizes)
