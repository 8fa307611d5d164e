"""From text to windows of token ids."""

import sys
from types import ModuleType

import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.growing import text
from lsa_jax.experiments.growing.objectives import FIRST_SENTINEL, MASK, SEPARATOR
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.sweep.variants import set_fields

WORDS = ["the", "lobster", "of", "Europe", "lives", "in", "deep", "water", "né"]
N, VOCABULARY = 40, 300
FIELDS = {"data.sources": ("docs",), "data.vocabulary_size": VOCABULARY, "data.length": N}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    directory = tmp_path_factory.mktemp("text")
    (directory / "docs").mkdir()
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        lines = [" ".join(random.choice(WORDS, 12)) + "\n" for _ in range(2000)]
        (directory / "docs" / f"{name}.txt").write_text("\n".join(lines))
    return directory


@pytest.mark.parametrize("kind", ["wordpiece", "bytes"])
def test_a_folder_becomes_windows_the_same_every_time(folder, kind):
    data = set_fields(SETTINGS.default_config(), FIELDS).data
    first, again = (text.load(data, folder, kind) for _ in range(2))
    assert first.checksum == again.checksum
    assert first.train.shape[1] == N and first.train.max() < first.vocabulary_size <= VOCABULARY
    share = len(first.validation) / (len(first.validation) + len(first.train))
    assert 0.05 < share < 0.15
    both = np.concatenate([first.train, first.validation])
    assert (both == SEPARATOR).sum() >= 1  # between the two documents


def test_equally_frequent_pairs_are_joined_in_one_order_every_time():
    letters = np.random.default_rng(0).choice(list("abcdefghijklmnop"), (3000, 6))
    words = " ".join(map("".join, letters))
    # The library's own order differs each time, also within a process.
    found = [text.train_vocabulary([words], "wordpiece", 200).get_vocab() for _ in range(3)]
    assert found[0] == found[1] == found[2]


def test_special_tokens_in_a_text_are_known_and_pieces_of_words_are_not(folder):
    document = (folder / "docs" / "a.txt").read_text()
    tokenizer = text.train_vocabulary([document], "wordpiece", VOCABULARY)
    tokens = tokenizer.encode("The LOBSTER lives, ##e").tokens
    assert tokens[:3] == ["the", "lobster", "lives"] and "##e" not in tokens[3:]
    assert tokenizer.encode("[MASK]").ids == [MASK]


def test_a_vocabulary_has_room_for_the_letters():
    with pytest.raises(InputError):
        text.train_vocabulary(["abc"], "wordpiece", 8)
    assert text.train_vocabulary(["abc"], "wordpiece", 9).get_vocab_size() == 9


def test_bytes_lose_nothing(folder):
    document = (folder / "docs" / "a.txt").read_text()
    tokenizer = text.train_vocabulary([document], "bytes", 280, num_sentinels=2)
    ids = text.encode([document], tokenizer)
    assert ids[-1] == SEPARATOR and tokenizer.decode(ids[:-1].tolist()) == document
    assert tokenizer.token_to_id("[SPAN0]") == FIRST_SENTINEL
    assert tokenizer.token_to_id("[MASK]") == MASK


def test_the_last_of_every_so_many_runs_of_16_windows_is_held_out():
    train, held_out = text.split_windows(np.arange(16 * 7 * 2 + 1), 2, 3)  # the last is left out
    train, held_out = (part // 2 for part in (train, held_out))
    assert held_out[:, 0].tolist() == [*range(32, 48), *range(80, 96)]
    assert sorted([*train[:, 0], *held_out[:, 0]]) == [*range(16 * 7)]


def test_a_limit_counts_the_characters_of_all_documents_and_cuts_the_last():
    documents = ("abc", "de", "f")
    for limit, taken in ((None, documents), (6, documents), (5, documents[:2]), (4, ("abc", "d"))):
        assert tuple(text.take_characters(documents, limit)) == taken


@pytest.mark.parametrize("splits", [True, False])
def test_a_saved_data_set_is_read_from_below_the_data_folder(tmp_path, monkeypatch, splits):
    rows = [{"text": "one"}, {"text": "two"}]
    saved = {str(tmp_path / "some"): {"train": rows, "test": rows[:1]} if splits else rows}
    library = ModuleType("datasets")
    library.load_from_disk = saved.__getitem__
    monkeypatch.setitem(sys.modules, "datasets", library)
    (tmp_path / "some").mkdir()
    assert list(text.read_documents("hf:some", tmp_path)) == ["one", "two"]


def test_every_window_comes_once_an_epoch_and_shares_are_kept():
    rows = [text.batch_rows((7, 5), (), 3, 4, step) for step in range(6)]
    assert sorted(np.concatenate(rows[:3]).tolist()) == list(range(12))
    assert not np.array_equal(rows[0], rows[3])
    np.testing.assert_array_equal(rows[4], text.batch_rows((7, 5), (), 3, 4, 4))
    mixed = text.epoch_order((900, 100), (0.25, 0.75), 0, 0)
    assert np.bincount(mixed >= 900).tolist() == [250, 750]
    assert len(np.unique(mixed[mixed >= 900])) == 100


@pytest.mark.parametrize("source", ["missing", "."])
def test_missing_sources_are_refused(folder, source):
    for directory in (folder, None):
        with pytest.raises(InputError):
            list(text.read_documents(source, directory))
