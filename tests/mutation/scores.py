"""The table of how many mutants the tests catch, which `python tests/mutation` keeps."""

import subprocess
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("scores.md")

_HEAD = """\
How many single changes of a module its tests catch: `python tests/mutation MODULE` writes its row.
Mutants are drawn with the seed 0; those that change nothing (`equivalent.txt`) do not count.

| module | mutants | tried | caught | share | share when first tried | commit |
| --- | --- | --- | --- | --- | --- | --- |
"""


class Score(NamedTuple):
    """What came out for a module.

    Attributes:
        total: how many mutants it has.
        tried: how many of those were drawn and are not equivalent.
        caught: how many of the tried ones a test caught.
    """

    total: int
    tried: int
    caught: int


def share_of(score: Score) -> str:
    """Returns what was caught in percent, as in "95 %"; empty of a module without mutants."""
    return f"{100 * score.caught / score.tried:.0f} %" if score.tried else ""


def updated(table: str, module: str, score: Score, commit: str) -> str:
    """Returns a table with the row of a module replaced or added, its first share kept."""
    rows = {}
    for line in table.splitlines():
        if line.startswith("| lsa_jax/"):
            rows[line.split(" | ")[0].removeprefix("| ")] = line
    share = share_of(score)
    first = rows[module].split(" | ")[5] if module in rows else share
    cells = (module, *(str(number) for number in score), share, first, commit)
    rows[module] = f"| {' | '.join(cells)} |"
    return _HEAD + "".join(f"{rows[name]}\n" for name in sorted(rows))


def write(module: str, score: Score) -> None:
    """Writes the row of a module into scores.md, with the commit that is checked out."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, cwd=TABLE.parent, check=True, capture_output=True, text=True)
    table = TABLE.read_text() if TABLE.exists() else ""
    TABLE.write_text(updated(table, module, score, commit.stdout.strip()))
