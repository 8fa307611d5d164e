"""WordNet's noun synsets by their ImageNet ids, such as all kinds of plants.

`launch.synsets` writes the lists that the package ships from WordNet 3.0.

Source: Karp et al. (2021), appendix C, thesis appendix B.3: photographs of the Plants synset.
"""

import re
from collections.abc import Iterable
from importlib import resources

from lsa_jax.errors import InputError

PLANTS = "n00017222"
SHIPPED = {"plants": "plants_wordnet30.txt"}

# offset, file, type, words in base 16, the words with their numbers, pointers in base 10, | gloss
_NOUN = re.compile(r"\d{8} \d\d n [0-9a-f]{2} ")
_HYPONYM = ("~", "~i")  # kinds of it, and its instances
_LICENCE = "  "  # lines of the licence at the head of the file begin with it


def _no_synset(line: str) -> InputError:
    return InputError(f"{line[:40]!r} is no synset; expected a line of WordNet's data.noun")


def read_hyponyms(lines: Iterable[str]) -> dict[str, list[str]]:
    """Returns each noun synset's direct hyponyms, from the lines of WordNet's `data.noun`.

    An id is "n" and the synset's eight-digit offset. Lines of the licence, which begin with blanks,
    are skipped.

    Raises:
        InputError: a line is neither of the licence nor a noun synset.

    Source: WordNet 3.0, wndb(5WN): data file format.
    """
    hyponyms = {}
    for line in lines:
        if line.startswith(_LICENCE):
            continue
        if not _NOUN.match(line):
            raise _no_synset(line)
        fields = line.split(" | ")[0].split()
        pointers = fields[4 + 2 * int(fields[3], 16) :]
        # The number of pointers, then four fields each.
        if not pointers or not pointers[0].isdecimal() or len(pointers) != 1 + 4 * int(pointers[0]):
            raise _no_synset(line)
        entries = zip(pointers[1::4], pointers[2::4], pointers[3::4], strict=True)
        hyponyms[f"n{fields[0]}"] = [
            f"n{offset}" for symbol, offset, kind in entries if symbol in _HYPONYM and kind == "n"
        ]
    return hyponyms


def descendants(hyponyms: dict[str, list[str]], root: str) -> list[str]:
    """Returns the ids of a synset and of all its hyponyms, direct and indirect, sorted.

    Raises:
        InputError: there is no such synset, or a line of its hyponyms is missing.
    """
    if root not in hyponyms:
        raise InputError(f"root is {root!r}; accepted: the id of a noun synset, such as {PLANTS}")
    found, waiting = set(), [root]
    while waiting:
        synset = waiting.pop()
        if synset not in hyponyms:
            raise InputError(f"there is no line of {synset}; expected all of WordNet's data.noun")
        if synset not in found:
            found.add(synset)
            waiting += hyponyms[synset]
    return sorted(found)


def format_list(root: str, ids: list[str], lines: Iterable[str]) -> str:
    """Returns a synset's list of ids as text, with a title and the licence of its lines."""
    licence = [line.strip().partition(" ")[2] for line in lines if line.startswith(_LICENCE)]
    title = f"{root} and its hyponyms in WordNet 3.0: {len(ids)} synsets; made by launch.synsets"
    header = [f"# {line}".rstrip() for line in (title, "", *licence)]
    return "\n".join([*header, *ids]) + "\n"


def shipped(name: str) -> frozenset[str]:
    """Returns the ids of a synset and its hyponyms from a list in the package.

    Raises:
        InputError: the package has no such list.
    """
    if name not in SHIPPED:
        raise InputError(f"synset is {name!r}; accepted: {', '.join(SHIPPED)}")
    text = resources.files("lsa_jax.data").joinpath(SHIPPED[name]).read_text()
    return frozenset(line for line in text.splitlines() if not line.startswith("#"))
