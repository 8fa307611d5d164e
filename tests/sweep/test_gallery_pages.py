"""Pages of the gallery have our results next to the paper's.

The committed pages are compared with the records in test_catalog.py.
"""

import re
from pathlib import Path

import pytest
from published_sweeps import CLAIMS, finish, publish

from lsa_jax.reporting import files, gallery
from lsa_jax.sweep import gallery_pages
from lsa_jax.sweep.catalog import Entry, Variant


def entries(place):
    """Returns a catalogue of a, of which the gallery has the small size, and of d, which is not."""
    found = gallery.read(place)
    sizes = [Variant(f"configs/lsa/a.py{s}", n, ("mnist",), found.get(f"configs/lsa/a.py{s}"))
             for n, s in (("full", ""), ("small", ":small"))]  # fmt: skip
    missing = [Variant("configs/lsa/d.py:small", "small", (), None)]
    return [
        Entry(Path("configs/lsa/a.py"), "lsa", "Figure a", "the x_i <w, x> fall", sizes),
        Entry(Path("configs/lsa/d.py"), "lsa", "Figure d", "it shows", missing),
    ]


def test_a_page_has_claims_tables_and_figures_and_the_command(place):
    publish(place)
    gallery_pages.write(place[0], entries(place[0]))
    page, work = ((place[0] / name).read_text() for name in ("lsa/a.md", "lsa.md"))
    assert page.startswith("# Figure a\n") and "x\\_i &lt;w, x> fall" in page  # no markup, no HTML
    (main,) = re.findall(r"<li>(.*)</li>", page)  # of ten claims the one that was tested
    assert "gallery-status bad" in main
    assert all(number in main for number in ("a gap", "0.5 ± 0.01", "0.4 to 0.6", "0.75"))
    row = re.findall("<td.*?>(.*?)</td>", page[page.index("## Means") :])[:3]
    assert row == ["a", "10000", "0.1235"]
    assert "![A curve against its number.](a-small.curve.svg)" in page
    run = ("1 min 10 s on 2 cores", "50 s of processor", "2 runs", "A processor, 2 x H100")
    assert all(part in page for part in (*run, "JAX 0.10.2", "(a-small.results.json.xz)"))
    cells = ["a gap", "0.75", "0.5 ± 0.01", "0.4 to 0.6", "&lt;few&gt; seeds"]
    assert all(f">{cell}</td>" in page for cell in cells)
    command = (
        "python -m launch.sweep --config=configs/lsa/{}.py:small \\\n    --workdir=runs/{}{}\n"
    )
    assert command.format("a", "a-small", " --data_dir=DIR") in page
    assert "\n--config=configs/lsa/a.py\n" in page.partition("Not run")[2]
    assert 'href="lsa/a.md"' in work and 'src="lsa/a-small.curve.svg"' in work
    assert command.format("d", "d-small", "") in work.partition("## Not run")[2]


def test_primary_claims_come_first_and_are_on_the_first_page(place):
    others = [claim(f"other {number}", 1, "shown") for number in range(9)]
    main = claim("a gap", 0.7, "shown") | {"primary": True, "p": 0.01}
    gallery_pages.write(place[0], sizes_of(place, full=(9, [*others, main])))
    for name in ("index.md", "lsa.md", "lsa/a.md"):
        text = (place[0] / name).read_text().partition("All claims")[0]
        assert "a gap" in text and "other 3" not in text


@pytest.mark.parametrize("told", ["tasks of launch.groups", "SLURM: 4 CPU cores and 1 GPUs a task"])
def test_of_tasks_on_other_machines_the_host_that_recorded_them_is_not_named(place, told):
    finish(place[1], "mine", ["launch/sweep.py", "--config=configs/lsa/a.py:small"])
    path = place[1] / "mine" / "config.json"
    files.write_json(path, files.read_json(path) | {"devices": [told]})
    publish((place[0], place[1] / "mine"))
    gallery_pages.write(place[0], entries(place[0]))
    page, card = ((place[0] / name).read_text() for name in ("lsa/a.md", "figures.md"))
    assert f"took 3 s of its tasks together, 2 runs; {told}, JAX 0.10.2; [results]" in page
    assert "A processor" not in page and "core" not in page.replace(told, "")
    assert "at least" not in page + card and ">3 s of its tasks together</span>" in card


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
        ({"full": (2, "shown"), "small": (9, "not shown")}, "shown"),
        ({"small": (2, "shown"), "medium": (9, "not shown")}, "not shown"),
        ({"small": (9, "shown"), "medium": (2, "not shown")}, "shown"),
    ],
)
def test_a_claim_counts_once_at_the_published_size_or_the_longest(place, sizes, shown):
    told = {n: (seconds, [claim("a gap", 1, is_)]) for n, (seconds, is_) in sizes.items()}
    gallery_pages.write(place[0], sizes_of(place, **told))
    page = (place[0] / "index.md").read_text()
    count = {name: int(n) for name, n in re.findall(r'data-label="([^"]*)">(\d+)<', page)[:6]}
    others = {"shown", "not shown"} - {shown}
    assert count[shown] == 1 and count[others.pop()] == 0
    assert count["at the published size"] == ("full" in sizes)
