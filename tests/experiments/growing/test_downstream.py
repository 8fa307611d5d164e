import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from lsa_jax.errors import InputError, MissingDataError
from lsa_jax.experiments.growing import downstream, settings
from lsa_jax.experiments.growing.downstream import Item, Task
from lsa_jax.experiments.growing.downstream_report import downstream_claims, downstream_table
from lsa_jax.experiments.growing.numbers import DOWNSTREAM_ACCURACY, GROWING_STRATEGIES
from lsa_jax.experiments.growing.objectives import PAD, SEPARATOR
from lsa_jax.experiments.growing.text import train_vocabulary
from lsa_jax.experiments.growing.transformer import Sizes, decoder
from lsa_jax.reporting.intervals import difference_error
from lsa_jax.sweep.variants import set_fields

HEADINGS = {name: name for name in GROWING_STRATEGIES}


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


def test_accuracy_counts_every_item_once_where_the_last_batch_is_not_full():
    task = spelled("a", "b", "c", "d", "e")
    letters = np.array(["a", "b", "x", "d", "x"])

    def complete(params, tokens, shown):
        return np.array([[ord(letters[row[0]]), SEPARATOR] for row in tokens])

    for size in (1, 2, 3, 8):
        assert downstream.accuracy(task, complete, None, size) == pytest.approx(3 / 5)


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


def test_one_shot_is_the_first_item_with_its_first_answer():
    items = [Item("a?", ("b", "c")), Item("d?", ("e", "f")), Item("g?", ("h",))]
    assert downstream.one_shot(items) == [
        Item("a? b\nd?", ("e", "f")),
        Item("a? b\ng?", ("h",)),
    ]


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
    with pytest.raises(InputError, match="no window of 5 tokens is long enough"):
        read("network", "network", "network", "network", "a b c")


def test_last_words_are_whole_words_of_held_out_windows(tokenizer):
    ids = tokenizer.encode("a network is deep. whatev", add_special_tokens=False).ids
    (task,) = downstream.read_tasks(
        ("last_word",), None, tokenizer, np.array([ids]), examples=5, answer_tokens=3
    )
    assert task.answers == (("deep.",),) and task.first_word
    assert downstream.is_right(task, 0, tokenizer.encode(" deep and").ids)
    assert downstream.last_words(["one", "two parts", " . .", "a b c"]) == [Item("a", ("b",))]


def test_what_is_no_task_is_refused_with_what_is_accepted(tmp_path, tokenizer):
    def read(folder):
        kept = {"examples": 2, "answer_tokens": 2}
        return downstream.read_tasks(
            ("quiz",), folder, tokenizer, np.zeros((1, 9), np.int32), **kept
        )

    for folder, where in ((None, "quiz.jsonl below --data_dir"), (tmp_path, str(tmp_path))):
        with pytest.raises(MissingDataError, match=re.escape(f"accepted: a file {where}")):
            read(folder)
    with pytest.raises(InputError, match="2 or more"):
        read(written(tmp_path, ("alone", "one")))
    for answers in ("", ', "answers": "letters"'):
        (tmp_path / "quiz.jsonl").write_text(f'{{"prompt": "no list of answers"{answers}}}\n')
        with pytest.raises(InputError, match="line 1"):
            read(tmp_path)
    for fields in ({}, {"model.kind": "decoder", "data.length": 17}):
        tasks = {"downstream.tasks": ("quiz",)}
        with pytest.raises(InputError, match="downstream"):
            settings.validate(set_fields(settings.default_config(), tasks | fields))


def accuracies(values, items=10_000, seeds=3):
    rows = {
        f"downstream_{task} {name}": v for task, own in values.items() for name, v in own.items()
    }
    rows |= {f"items_{task}": items for task in values}
    rows |= {"seed": np.arange(seeds), "base_loss": np.arange(seeds), "span": 0.1, "operators": 12}
    return pd.DataFrame(rows, index=range(seeds))


def claims_of(numbers):
    """Returns the claims of a sweep that asked for these seeds, and for 12 operators."""
    config = set_fields(settings.default_config(), {"sweep.seed": tuple(numbers["seed"].tolist())})
    return downstream_claims(config, numbers, HEADINGS)


def test_the_thesis_own_accuracies_are_shown_and_exchanged_ones_are_not():
    paper = {t: {n: v / 100 for n, v in own.items()} for t, own in DOWNSTREAM_ACCURACY.items()}
    claims = claims_of(accuracies(paper))
    assert len(claims) == 9
    for claim in claims:
        assert claim.ours == pytest.approx(claim.paper) and claim.paper > 0
    # Of 10,000 items: the question answering of TyDi QA alone is above by more than their draw.
    assert {c.status for c in claims if "tydiqa" in c.item} == {"shown"}
    many = claims_of(accuracies(paper, items=10**6))
    assert {claim.status for claim in many} == {"shown"}
    swapped = {t: own | {"lag": own["lag_0"], "lag_0": own["lag"]} for t, own in paper.items()}
    found = claims_of(accuracies(swapped, items=10**6))
    assert {c.status for c in found if "lag_0" in c.item} == {"not shown"}
    table = downstream_table(accuracies(paper), HEADINGS)
    assert table["lambada, thesis"].tolist() == ["8.32", "7.6", "6.89", "6.9", "6.89"]
    assert table["lambada %"].tolist()[1] == "7.60 ± 0.00"


def test_networks_that_hardly_answer_show_nothing():
    # Two right answers of 100 cannot be told from none, 30 and 80 can.
    for right, able in ((0.02, False), (0.3, True), (0.8, True)):
        own = {"quiz": {"lag": right, "stack_last": 0.0, "stack_random": 0.0}}
        claims = claims_of(accuracies(own, items=100))
        # The others are compared where they are there, lag_0 is not.
        assert len(claims) == 2
        assert {claim.note == "" and claim.status == "shown" for claim in claims} == {able}
        assert {"hardly anything is right" in claim.note for claim in claims} == {not able}
    # Five of 100 can, by the error of the seeds' mean.
    own = {"quiz": {"lag": 0.05, "stack_last": 0.0}}
    (claim,) = claims_of(accuracies(own, items=100))
    assert "hardly anything is right" not in claim.note
    # The seed that was asked the fewest items decides.
    few = accuracies({"quiz": {"lag": 0.02, "stack_last": 0.0}}, items=[100, 10_000, 10_000])
    assert "hardly anything is right" in claims_of(few)[0].note


def test_a_difference_has_the_error_of_its_items():
    own = {"quiz": {"lag": 0.5, "stack_last": 0.4}}
    (claim,) = claims_of(accuracies(own, items=50, seeds=1))
    reach = 1.96 * 100 * difference_error(0.5, 0.4, 50)
    np.testing.assert_allclose((claim.low, claim.high), 10 + reach * np.r_[-1, 1], rtol=1e-3)
