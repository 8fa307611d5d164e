"""Synsets: WordNet's own format, every hyponym and nothing else."""

import numpy as np
import pytest
from PIL import Image

from lsa_jax.data import images, synsets
from lsa_jax.errors import InputError

# Five synsets in the format of WordNet 3.0: a root with a verb among its pointers, a kind of it
# with two words, an instance, a kind that is reached twice, and one that lies outside.
DATA_NOUN = """\
  1 This software and database is being provided to you, the LICENSEE, by  
  2   
  3 WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved.  
00000100 03 n 01 plant 0 003 ~ 00000200 n 0000 + 00000500 v 0101 ~i 00000300 n 0000 | has | a bar  
00000200 20 n 0a a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 1 002 @ 00000100 n 0000 ~ 00000400 n 0000 | x
00000300 20 n 02 General_Sherman 0 tree 1 002 @i 00000100 n 0000 ~ 00000400 n 0000 | an instance  
00000400 20 n 01 leaf 0 002 @ 00000200 n 0000 %p 00000500 n 0000 | a part is no kind  
00000500 03 n 01 stone 0 001 -c 00000100 n 0000 | no plant  
"""  # noqa: W291


def test_all_hyponyms_are_found_once_and_nothing_else():
    hyponyms = synsets.read_hyponyms(DATA_NOUN.splitlines())
    assert hyponyms["n00000100"] == ["n00000200", "n00000300"]
    assert synsets.descendants(hyponyms, "n00000100") == [
        "n00000100",
        "n00000200",
        "n00000300",
        "n00000400",
    ]
    assert synsets.descendants(hyponyms, "n00000500") == ["n00000500"]


@pytest.mark.parametrize(
    "line",
    [
        "00000100 03 n 01 plant 0 001 ~ 00000200",
        "00000100 03 n 01 plant 0 002 ~ 00000200 n 0000 | one pointer of two",
        "00000100 03 n 02 plant 0 001",
        "00000100 03 n 01 plant 0 ~ 00000200 n 0000 | no number",
    ],
)
def test_a_line_that_is_cut_is_no_synset(line):
    with pytest.raises(InputError, match="no synset"):
        synsets.read_hyponyms([line])


def test_a_list_keeps_the_licence_and_reads_as_the_ids(monkeypatch, tmp_path):
    ids = ["n00000100", "n00000200"]
    text = synsets.format_list("n00000100", ids, DATA_NOUN.splitlines())
    assert "# WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved." in text
    (tmp_path / "list.txt").write_text(text)
    monkeypatch.setattr(synsets.resources, "files", lambda package: tmp_path)
    monkeypatch.setitem(synsets.SHIPPED, "two", "list.txt")
    assert synsets.shipped("two") == frozenset(ids)


def test_photographs_of_a_synset_are_those_in_its_folders(tmp_path):
    for value, name in enumerate(("n00000100", "n00000200", "n00000500")):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((4, 4, 3), 51 * value, np.uint8)).save(tmp_path / name / "a.png")
    wanted = images.photographs(tmp_path, 4, {"n00000200", "n00000500", "n00000900"})
    np.testing.assert_allclose(wanted[:, 0, 0, 0], [0.2, 0.4], rtol=1e-6)
    with pytest.raises(InputError, match="no pictures of the 1 classes"):
        images.photographs(tmp_path, 4, {"n00000900"})
