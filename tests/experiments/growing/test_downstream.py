import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import InputError, MissingDataError
from lsa_jax.experiments.growing import downstream
from lsa_jax.experiments.growing.downstream import Task
from lsa_jax.experiments.growing.objectives import PAD, SEPARATOR
from lsa_jax.experiments.growing.text import train_vocabulary
from lsa_jax.experiments.growing.transformer import Sizes, decoder


def test_a_completion_is_the_likeliest_token_after_token_whatever_fills_the_window():
    model = decoder(Sizes(vocabulary_size=30, length=12, width=8, heads=2, hidden=8, init_std=1.0))
    params = jax.jit(model.init, static_argnums=1)(jax.random.key(0), 2)
    read = jax.jit(model.apply)
    prompts = [[SEPARATOR, 9, 21, 14], [SEPARATOR, 25, 11]]
    tokens = np.full((2, 12), PAD, np.int32)
    wanted = []
    for row, prompt in zip(tokens, prompts, strict=True):
        row[: len(prompt)] = prompt
        known = list(prompt)
        for _ in range(4):
            seen, prefix = jnp.asarray([known]), jnp.asarray([len(prompt)])
            logits = read(params, seen, prefix, jnp.asarray([[len(known) - 1]]))
            known.append(int(jnp.argmax(logits[0, 0])))
        wanted.append(known[len(prompt) :])
    complete = downstream.make_completer(model, 4)
    found = complete(params, tokens, np.array([4, 3]))
    assert found.tolist() == wanted and wanted[0] != wanted[1]


def spelled(*texts, first_word=False):
    """Returns a task whose tokens are letters, with these answers."""
    tokens = np.zeros((len(texts), 4), np.int32)
    tokens[:, 0] = np.arange(len(texts))
    answers = tuple((text,) for text in texts)
    shown = np.ones(len(texts), np.int32)
    return Task("t", tokens, shown, answers, first_word, lambda ids: "".join(map(chr, ids)))


@pytest.mark.parametrize(
    ("completion", "whole", "word"),
    [
        (" Tide Pool.", True, False),
        ("tide pool\nQuestion", True, False),
        ("the tide pool", False, False),
        ("tide", False, True),
        ("Tide, and", False, True),
        ("tide pool\x01 and more", True, False),  # 1 is the separator
        ("", False, False),
    ],
)
def test_an_answer_is_a_first_line_or_a_first_word(completion, whole, word):
    ids = list(map(ord, completion))
    assert downstream.is_right(spelled("tide pool"), 0, ids) is whole
    # "tide" is the first word of all completions that begin with it.
    found = downstream.is_right(spelled("tide", first_word=True), 0, ids)
    assert found is (word or whole)


def test_every_item_is_answered_once_where_the_last_batch_is_not_full():
    task = spelled("a", "b", "c", "d", "e")
    letters = np.array(["a", "b", "x", "d", "x"])

    def complete(params, tokens, shown):
        return np.array([[ord(letters[row[0]]), SEPARATOR] for row in tokens])

    for size in (1, 2, 3, 8):
        right = downstream.answers_right(complete, None, size, task)
        assert right.tolist() == [True, True, False, True, False]


@pytest.fixture
def tokenizer():
    return train_vocabulary(["what is deep? a network is deep"] * 3, "bytes", 300)


def written(directory, *items):
    rows = [json.dumps({"prompt": prompt, "answers": answers}) for prompt, *answers in items]
    (directory / "quiz.jsonl").write_text("\n".join(rows))
    return directory


def test_a_task_shows_the_first_item_before_every_other_and_cuts_from_the_left(tmp_path, tokenizer):
    folder = written(tmp_path, ("what?", "deep", "low"), ("is a", "net", "web"), ("is it", "x"))
    for length, cut in ((60, False), (12, True)):
        held_out = np.zeros((3, length), np.int32)
        (task,) = downstream.read_tasks(
            ("quiz:word",), folder, tokenizer, held_out, examples=1, answer_tokens=6
        )
        assert (task.name, task.first_word, task.answers) == ("quiz", True, (("net", "web"),))
        text = tokenizer.decode(task.tokens[0, 1 : task.shown[0]].tolist())
        assert text == "what? deep\nis a" or (cut and "what? deep\nis a".endswith(text))
        assert (task.shown[0] == 6) == cut and task.tokens[0, 0] == SEPARATOR
        assert (task.tokens[0, task.shown[0] :] == PAD).all()


def test_passages_too_short_for_a_last_word_are_left_out_and_some_are_needed(tokenizer):
    def read(*texts):
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        length = max(map(len, ids))
        space = tokenizer.encode(" ", add_special_tokens=False).ids
        held_out = np.array([space * (length - len(own)) + own for own in ids])
        (task,) = downstream.read_tasks(
            ("last_word",), None, tokenizer, held_out, examples=2, answer_tokens=3
        )
        return task.answers

    # Of two items, four windows are looked at.
    assert read("network", "a b c", "network", "a d c", "a e c") == (("b",), ("d",))
    assert read("a b c", "a d c", "a e c") == (("b",), ("d",))
    with pytest.raises(InputError):
        read("network", "network", "network", "network", "a b c")


def test_files_that_hold_no_task_are_refused(tmp_path, tokenizer):
    def read(folder):
        kept = {"examples": 2, "answer_tokens": 2}
        return downstream.read_tasks(
            ("quiz",), folder, tokenizer, np.zeros((1, 9), np.int32), **kept
        )

    for folder in (None, tmp_path):
        with pytest.raises(MissingDataError):
            read(folder)
    with pytest.raises(InputError):
        read(written(tmp_path, ("alone", "one")))
    for answers in ("", ', "answers": "letters"'):
        (tmp_path / "quiz.jsonl").write_text(f'{{"prompt": "no list of answers"{answers}}}\n')
        with pytest.raises(InputError, match="line 1"):
            read(tmp_path)
