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


def test_primary_claims_come_first_and_are_on_the_first_page(place):
    others = [claim(f"other {number}", 1, "shown") for number in range(9)]
    main = claim("a gap", 0.7, "shown") | {"primary": True, "p": 0.01}
    gallery_pages.write(place[0], sizes_of(place, full=(9, [*others, main])))
    for name in ("index.md", "lsa.md", "lsa/a.md"):
        text = (place[0] / name).read_text().partition("All claims")[0]
        assert "a gap" in text and "other 3" not in text and "<few>" not in text


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
