"""WordNet's noun synsets by their ImageNet ids, such as all kinds of plants.

The lists are those of WordNet 3.0: a synset, its hyponyms and instances, direct and indirect, as
`synset.closure(lambda s: s.hyponyms() + s.instance_hyponyms())` of nltk gives them.

Source: Karp et al. (2021), appendix C, thesis appendix B.3: photographs of the Plants synset.
"""

from importlib import resources

from lsa_jax.errors import InputError

SHIPPED = {"plants": "plants_wordnet30.txt"}


def shipped(name: str) -> frozenset[str]:
    """Returns the ids of a synset and its hyponyms from a list in the package.

    Raises:
        InputError: the package has no such list.
    """
    if name not in SHIPPED:
        raise InputError(f"synset is {name!r}; accepted: {', '.join(SHIPPED)}")
    text = resources.files("lsa_jax.data").joinpath(SHIPPED[name]).read_text()
    return frozenset(line for line in text.splitlines() if not line.startswith("#"))
