"""Downstream tasks of grown decoders: questions answered after one example, passages completed.

A task is a file NAME.jsonl below --data_dir, an item a line: {"prompt": "...", "answers": ["..."]}.
The first item with its first answer stands before the prompt of every other one. The task
`last_word` has held-out windows of the text without their last word instead, and no first item.

Source: Karp (thesis, 2024), appendix C.2 and table C.1.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from lsa_jax.errors import InputError, MissingDataError
from lsa_jax.experiments.growing.objectives import PAD, SEPARATOR
from lsa_jax.experiments.growing.transformer import Transformer

if TYPE_CHECKING:
    import tokenizers

LAST_WORD = "last_word"
_FIRST_WORD = ":word"


Item = tuple[str, tuple[str, ...]]  # a prompt, and the answers that count as right


class Task(NamedTuple):
    """Items as a decoder reads them."""

    name: str
    tokens: Int[np.ndarray, "items n"]  # a separator and the prompt, then room for the answer
    shown: Int[np.ndarray, " items"]  # number of tokens of the separator and the prompt
    answers: tuple[tuple[str, ...], ...]  # the right answers of each item
    first_word: bool  # whether the completion's first word is the answer, or its whole first line
    decode: Callable[[list[int]], str]  # token ids to text


def read_items(name: str, data_dir: Path | None) -> list[Item]:
    """Reads a task's items.

    Raises:
        MissingDataError: there is no such file.
        InputError: it holds something else, or fewer than two items: a shot and a question.
    """
    path = None if data_dir is None else data_dir / f"{name}.jsonl"
    if path is None or not path.is_file():
        where = f"{name}.jsonl below --data_dir (or LSA_DATA_DIR)" if path is None else path
        raise MissingDataError(f"config.downstream.tasks has {name!r}; accepted: a file {where}")
    items = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
            if not isinstance(row["answers"], list):  # a text is a list of letters, too
                raise TypeError
            items.append((str(row["prompt"]), tuple(map(str, row["answers"]))))
        except (ValueError, KeyError, TypeError):
            raise InputError(
                f"{path}, line {number}, is {line[:60]!r}; accepted: "
                '{"prompt": "...", "answers": ["...", ...]}'
            ) from None
    if len(items) < 2 or not all(answers for _, answers in items):
        raise InputError(f"{path} has {len(items)} items; accepted: 2 or more, all with answers")
    return items


def one_shot(items: list[Item]) -> list[Item]:
    """Returns all items but the first, which stands before each with its first answer."""
    (shot, (answer, *_)), *rest = items
    return [(f"{shot} {answer}\n{prompt}", answers) for prompt, answers in rest]


def last_words(texts: list[str]) -> list[Item]:
    """Returns passages without their last whole word, which is the answer."""
    cut = (text.rsplit(" ", 2) for text in texts)
    found = [(parts[0], (parts[1],)) for parts in cut if len(parts) == 3]
    return [item for item in found if item[0].strip() and normalised(item[1][0])]


def normalised(text: str) -> str:
    """Returns words in lower case with single spaces, for comparing answers."""
    return " ".join(re.findall(r"\w+", text.lower()))


def read_tasks(
    names: tuple[str, ...],
    data_dir: Path | None,
    tokenizer: "tokenizers.Tokenizer",
    held_out: Int[np.ndarray, "windows n"],
    examples: int,
    answer_tokens: int,
) -> tuple[Task, ...]:
    """Reads tasks and cuts them into tokens, prompts from the left where they are too long.

    A name is NAME of a file whose answers are a completion's first line, NAME:word where they are
    its first word, or `last_word`. Inputs are as long as `held_out`, windows of the networks' own
    text; a task has the first `examples` items at most, and room for `answer_tokens`.

    Raises:
        MissingDataError: a file is missing.
        InputError: it holds something else.
    """
    tasks = []
    for name in names:
        if name == LAST_WORD:
            texts = [tokenizer.decode(window.tolist()) for window in held_out[: 2 * examples]]
            items = last_words(texts)
        else:
            items = one_shot(read_items(name.removesuffix(_FIRST_WORD), data_dir))
        items = items[:examples]
        if not items:
            raise InputError(
                f"config.downstream.tasks has {name!r}, for which no window of "
                f"{held_out.shape[1]} tokens is long enough; accepted: a larger config.data.length"
            )
        prompts, answers = zip(*items, strict=True)
        room = held_out.shape[1] - answer_tokens - 1
        ids = [tokenizer.encode(one, add_special_tokens=False).ids[-room:] for one in prompts]
        tokens = np.full((len(items), held_out.shape[1]), PAD, np.int32)
        tokens[:, 0] = SEPARATOR
        for row, prompt in zip(tokens, ids, strict=True):
            row[1 : 1 + len(prompt)] = prompt
        shown = np.array([1 + len(prompt) for prompt in ids], np.int32)
        first_word = name == LAST_WORD or name.endswith(_FIRST_WORD)
        short = name.removesuffix(_FIRST_WORD)
        tasks.append(Task(short, tokens, shown, answers, first_word, tokenizer.decode))
    return tuple(tasks)


def make_completer(model: Transformer, count: int) -> Callable[[Any, Array, Array], Array]:
    """Returns `(params, tokens [b, n], shown [b]) -> completion [b, count]`."""

    @jax.jit
    def complete(
        params: Any, tokens: Int[Array, "b n"], shown: Int[Array, " b"]
    ) -> Int[Array, "b count"]:
        rows = jnp.arange(len(tokens))

        def add(place: Array, tokens: Int[Array, "b n"]) -> Int[Array, "b n"]:
            logits = model.apply(params, tokens, shown, (shown - 1 + place)[:, None])[:, 0]
            return tokens.at[rows, shown + place].set(jnp.argmax(logits, axis=1).astype(jnp.int32))

        tokens = jax.lax.fori_loop(0, count, add, tokens)
        return tokens[rows[:, None], shown[:, None] + jnp.arange(count)[None]]

    return complete


def is_right(task: Task, item: int, completion: list[int]) -> bool:
    """Whether a completion is one of an item's answers."""
    end = completion.index(SEPARATOR) if SEPARATOR in completion else len(completion)
    text = task.decode(completion[:end]).strip().partition("\n")[0]
    words = normalised(text).split()
    found = " ".join(words[:1] if task.first_word else words)
    return found in {normalised(answer) for answer in task.answers[item]}


def answers_right(
    complete: Callable, params: Any, batch_size: int, task: Task
) -> Bool[np.ndarray, " items"]:
    """Returns whether a network completes each of a task's items rightly."""
    right = []
    for start in range(0, len(task.tokens), batch_size):
        # The last batch is filled up with the first items: one program for all.
        rows = np.arange(start, start + batch_size) % len(task.tokens)
        found = np.asarray(complete(params, task.tokens[rows], task.shown[rows]))
        count = min(batch_size, len(task.tokens) - start)
        right += [is_right(task, start + i, found[i].tolist()) for i in range(count)]
    return np.array(right)
