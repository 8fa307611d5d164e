"""Text for language models: read, cut into tokens, packed into windows of one length.

A source is a text file, a folder whose `*.txt` are documents, or a Hugging Face data set,
`hf:PATH[:CONFIGURATION]`, with a column `text` (needs the `datasets` library). The vocabulary is
trained on the sources by the `tokenizers` library, beginning with the special tokens.
"""

import functools
import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Integer

from lsa_jax.data import stand_ins
from lsa_jax.errors import InputError, MissingDataError, one_line
from lsa_jax.experiments.growing.objectives import SEPARATOR, SPECIAL_TOKENS
from lsa_jax.sweep.fields import Config

if TYPE_CHECKING:
    import tokenizers

# Runs of this many windows go to training or to validation together, so that validation text is
# seldom a neighbour of training text.
_RUN = 16

_HUGGING_FACE = "hf:"


class Text(NamedTuple):
    """Windows of token ids."""

    train: Integer[np.ndarray, "windows n"]  # windows to train on, source after source
    validation: Integer[np.ndarray, "held_out n"]  # windows to measure the loss on
    sizes: tuple[int, ...]  # training windows of each source
    vocabulary_size: int  # token ids are below it
    tokenizer: "tokenizers.Tokenizer | None" = None  # of the text; None where a dry run has no text

    @property
    def checksum(self) -> int:
        """A number that differs between texts and vocabularies, for checkpoints."""
        return zlib.crc32(self.validation.tobytes(), zlib.crc32(self.train.tobytes()))


def _hugging_face(source: str, data_dir: Path | None) -> Iterator[str]:
    try:
        import datasets  # optional, and slow to import
    except ImportError:
        raise InputError(
            f"config.data.sources has {source!r}, which needs the datasets library; accepted: "
            "`pip install datasets`, or a text file or folder below --data_dir"
        ) from None
    path, _, name = source.removeprefix(_HUGGING_FACE).partition(":")
    try:
        if data_dir is not None and (data_dir / path).is_dir():
            rows = datasets.load_from_disk(str(data_dir / path))
            rows = rows["train"] if isinstance(rows, dict) else rows  # of all splits, or of one
        else:
            rows = datasets.load_dataset(path, name or None, split="train", streaming=True)
        for row in rows:
            yield row["text"]
    except (OSError, ValueError, KeyError) as error:  # no such set or column, or no network
        reason = one_line(error)
        raise InputError(
            f"config.data.sources has {source!r}, which cannot be read: {reason}; accepted: a data "
            "set with a split `train` and a column `text`"
        ) from None


def read_documents(source: str, data_dir: Path | None) -> Iterator[str]:
    """Yields a source's documents, those of a folder by file name.

    Raises:
        MissingDataError: there is no such file or folder.
        InputError: it holds no text, or a library is missing.
    """
    if source.startswith(_HUGGING_FACE):
        yield from _hugging_face(source, data_dir)
        return
    if data_dir is None:
        raise MissingDataError(
            f"config.data.sources has {source!r}, looked for below --data_dir (or LSA_DATA_DIR); "
            "accepted: a folder given there"
        )
    path = data_dir / source
    if not path.exists():
        raise MissingDataError(
            f"{path} does not exist; accepted: a text file, or a folder with *.txt"
        )
    paths = sorted(path.glob("*.txt")) if path.is_dir() else [path]
    if not paths:
        raise InputError(f"{path} holds no *.txt; accepted: a text file, or a folder with *.txt")
    for one in paths:
        try:
            yield one.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{one} is not UTF-8 text: {error.reason}") from None


def take_characters(documents: Iterable[str], limit: int | None) -> Iterator[str]:
    """Yields documents up to `limit` characters in all, the last one cut; None yields all."""
    for document in documents:
        if limit is not None and limit <= 0:
            return
        yield document[:limit]
        limit = None if limit is None else limit - len(document)


def train_vocabulary(
    pieces: Iterable[str], kind: str, vocabulary_size: int, num_sentinels: int = 0
) -> "tokenizers.Tokenizer":
    """Trains a vocabulary whose first ids are the special tokens, then the sentinels.

    It is "wordpiece" (lower case, as BERT's) or "bytes" (pairs of bytes, joined).

    Raises:
        InputError: the vocabulary is too small for its kind.
    """
    import tokenizers

    special = [*SPECIAL_TOKENS, *(f"[SPAN{i}]" for i in range(num_sentinels))]
    least = len(special) + (256 if kind == "bytes" else 1)
    if vocabulary_size < least:
        raise InputError(
            f"vocabulary_size is {vocabulary_size}; accepted for {kind!r}: {least} or more"
        )
    if kind == "wordpiece":
        return _train_wordpiece(list(pieces), special, vocabulary_size)
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=special,
        # Sorted: the library gives a set, and ids must not differ from run to run.
        initial_alphabet=sorted(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(pieces, trainer)
    return tokenizer


def _train_wordpiece(
    pieces: list[str], special: list[str], vocabulary_size: int
) -> "tokenizers.Tokenizer":
    """Trains a vocabulary that is the same in every process.

    The library numbers the letters inside words ("##x") in an order that differs from process to
    process, and joins pairs of equal frequency in the order of these numbers. So the letters are
    found first, and given to it in alphabetical order.
    """
    import tokenizers

    def new(model: "tokenizers.models.WordPiece") -> "tokenizers.Tokenizer":
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        return tokenizer

    def train(first: list[str], size: int) -> dict[str, int]:
        tokenizer = new(tokenizers.models.WordPiece(unk_token="[UNK]"))
        trainer = tokenizers.trainers.WordPieceTrainer(
            vocab_size=size, special_tokens=first, show_progress=False
        )
        tokenizer.train_from_iterator(pieces, trainer)
        return tokenizer.get_vocab()

    # So small a vocabulary has letters alone.
    letters = [token for token in train(special, len(special)) if token.startswith("##")]
    vocabulary = train([*special, *sorted(letters)], vocabulary_size)
    if len(vocabulary) > vocabulary_size:
        raise InputError(
            f"vocabulary_size is {vocabulary_size}; accepted for 'wordpiece' with the letters of "
            f"this text: {len(vocabulary)} or more"
        )
    # A new tokenizer, as "##x" in a text is no special token.
    tokenizer = new(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.add_special_tokens(special)
    return tokenizer


def encode(
    documents: Iterable[str], tokenizer: "tokenizers.Tokenizer"
) -> Integer[np.ndarray, " tokens"]:
    """Returns the documents' token ids, each document followed by a separator."""
    wide = tokenizer.get_vocab_size() > np.iinfo(np.uint16).max
    kind = np.uint32 if wide else np.uint16
    parts = [np.zeros(0, kind)]
    for document in documents:
        encodings = tokenizer.encode_batch(
            document.splitlines(keepends=True), add_special_tokens=False
        )
        ids = itertools.chain.from_iterable(encoding.ids for encoding in encodings)
        parts += [np.fromiter(ids, kind), np.full(1, SEPARATOR, kind)]
    return np.concatenate(parts)


def split_windows(
    tokens: Integer[np.ndarray, " tokens"], length: int, every: int
) -> tuple[Integer[np.ndarray, "train n"], Integer[np.ndarray, "held_out n"]]:
    """Cuts a stream into windows, holding out the last of `every` runs of 16."""
    count = len(tokens) // length
    windows = tokens[: count * length].reshape(count, length)
    is_held = np.arange(len(windows)) // _RUN % every == every - 1
    return windows[~is_held], windows[is_held]


def load(data: Config, data_dir: Path | None, vocabulary: str, num_sentinels: int = 0) -> Text:
    """Reads sources, trains a vocabulary on all of them and packs them into windows.

    `data` is the section of a configuration, `vocabulary` "wordpiece" or "bytes"; `num_sentinels`
    of its tokens are for span corruption.

    Raises:
        InputError: a source is missing, or too short for a window to train on and one to hold out.
    """
    sources, length = data.sources, data.length
    if not sources:
        raise InputError("config.data.sources is (); accepted: one source or more")
    if stand_ins.are_wanted():  # windows of zeros for a dry run
        train, held_out = (np.zeros((count, length), np.int32) for count in (100_000, 10_000))
        sizes = tuple(len(part) for part in np.array_split(train, len(sources)))
        return Text(train, held_out, sizes, data.vocabulary_size)
    texts = [
        list(take_characters(read_documents(s, data_dir), data.max_characters)) for s in sources
    ]
    pieces = (
        piece for text in texts for document in text for piece in document.splitlines(keepends=True)
    )
    tokenizer = train_vocabulary(pieces, vocabulary, data.vocabulary_size, num_sentinels)
    parts = [split_windows(encode(t, tokenizer), length, data.validation_every) for t in texts]
    for source, (train, held_out) in zip(sources, parts, strict=True):
        if not len(train) or not len(held_out):
            raise InputError(
                f"config.data.sources has {source!r} with {len(train)} windows of {length} tokens "
                f"to train on and {len(held_out)} to hold out; accepted: longer texts, or shorter "
                "windows"
            )
    return Text(
        np.concatenate([train for train, _ in parts]),
        np.concatenate([held_out for _, held_out in parts]),
        tuple(len(train) for train, _ in parts),
        tokenizer.get_vocab_size(),
        tokenizer,
    )


@functools.lru_cache(maxsize=4)  # all steps of an epoch need it
def epoch_order(
    sizes: tuple[int, ...], shares: tuple[float, ...], seed: int, epoch: int
) -> Integer[np.ndarray, " rows"]:
    """Returns the order in which an epoch visits the training windows.

    Without shares every window comes once. With shares an epoch has the same length, and every
    source its share of it; a source with fewer windows than that is repeated.
    """
    random = np.random.default_rng((seed, epoch))
    total, starts = sum(sizes), np.cumsum((0, *sizes))
    wanted = [round(total * share) for share in shares] if shares else sizes
    parts = []
    for start, size, count in zip(starts[:-1], sizes, wanted, strict=True):
        passes = [random.permutation(size) for _ in range(-(-count // size))]
        parts.append(start + np.concatenate([*passes, np.zeros(0, np.int64)])[:count])
    return random.permutation(np.concatenate(parts))


def batch_rows(
    sizes: tuple[int, ...], shares: tuple[float, ...], seed: int, batch_size: int, step: int
) -> Integer[np.ndarray, " b"]:
    """Returns the windows of a step, the same for every model."""
    rows = len(epoch_order(sizes, shares, seed, 0))
    places = step * batch_size + np.arange(batch_size)
    orders = {
        epoch: epoch_order(sizes, shares, seed, epoch) for epoch in set((places // rows).tolist())
    }
    return np.stack([orders[place // rows][place % rows] for place in places])
