"""Writes the ids of a WordNet synset and of all its hyponyms, as photographs are chosen by.

Examples:
    python -m launch.synsets --data_noun=/usr/share/wordnet/data.noun --root=n00017222 \
        --output=lsa_jax/data/plants_wordnet30.txt

makes the list that comes with the package: ImageNet's Plants. WordNet 3.0 is Debian's and Ubuntu's
package wordnet-base. The list keeps the licence at the head of its file, as required.
"""

from pathlib import Path

from absl import flags

from launch import _cli
from lsa_jax import user_files
from lsa_jax.errors import InputError

_DATA_NOUN = _cli.define_path("data_noun", None, "WordNet 3.0's file data.noun.")
_ROOT = flags.DEFINE_string("root", "n00017222", "Id of the synset; the default is plant.")
_OUTPUT = _cli.define_path("output", None, "File to write.")


def main() -> None:
    """Reads WordNet, walks down from the root, and writes one id a line."""
    if not _DATA_NOUN.value or not Path(_DATA_NOUN.value).is_file():
        raise InputError(f"--data_noun is {_DATA_NOUN.value!r}; accepted: WordNet's data.noun")
    output = user_files.output_file("output", _cli.required(_OUTPUT, "a file to write"))

    # Only now: this imports jax, and mistakes should not cost seconds.
    from lsa_jax.data import synsets
    from lsa_jax.reporting import files

    try:
        lines = Path(_DATA_NOUN.value).read_text().splitlines()
    except ValueError:
        raise InputError(
            f"--data_noun is {_DATA_NOUN.value!r}, which is no text; accepted: WordNet's data.noun"
        ) from None
    ids = synsets.descendants(synsets.read_hyponyms(lines), _ROOT.value)
    files.write_text(output, synsets.format_list(_ROOT.value, ids, lines))
    print(f"wrote {len(ids):,} synsets to {output}")


if __name__ == "__main__":
    _cli.run(main)
