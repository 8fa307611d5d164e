"""Hidden and predicted tokens of each objective have the published laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lsa_jax.errors import InputError
from lsa_jax.experiments.growing import objectives

N, VOCABULARY, DRAWS = 40, 300, 3000


def _is_uniform(values, lowest, highest):
    """Whether whole numbers are as likely as each other, to one in a thousand."""
    counts = np.bincount(np.asarray(values), minlength=highest + 1)
    assert counts.sum() == counts[lowest : highest + 1].sum()
    return scipy.stats.chisquare(counts[lowest : highest + 1]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("length", "tokens", "noise", "spans"),
    [(6, 4, 1, 1), (40, 36, 5, 2), (128, 116, 17, 6), (512, 466, 70, 23)],
)
def test_fifteen_percent_are_cut_out_in_spans_of_three(length, tokens, noise, spans):
    assert objectives.span_sizes(length) == (tokens, noise, spans)
    # 15 % and a third of that, rounded; one token more would not fit with its sentinels.
    assert (noise, spans) == (max(round(0.15 * tokens), 1), max(round(noise / 3), 1))
    more = max(round(max(round(0.15 * (tokens + 1)), 1) / 3), 1)
    assert tokens + 2 * spans <= length < tokens + 1 + 2 * more
    names = ("masked", "causal", "prefix", "spans", "ul2")
    assert [objectives.num_sentinels(name, length) for name in names] == [0, 0, 0, spans, spans]


def test_windows_too_short_for_a_span_are_refused():
    with pytest.raises(InputError):
        objectives.num_sentinels("spans", 5)


def test_every_way_to_place_the_spans_is_as_likely():
    sizes, window = objectives.span_sizes(N), jnp.arange(60, 60 + N)
    keys = jax.random.split(jax.random.key(0), DRAWS)
    rows = np.asarray(jax.vmap(lambda key: objectives.corrupt_spans(key, window)[0])(keys))
    answer = sizes.tokens - sizes.noise + sizes.spans
    second = objectives.FIRST_SENTINEL + 1
    # Text before the first of two spans, and the length of that span.
    before = np.argmax(rows == objectives.FIRST_SENTINEL, axis=1)
    first = np.argmax(rows[:, answer:] == second, axis=1) - 1
    assert sizes.spans == 2 and (rows[:, answer] == objectives.FIRST_SENTINEL).all()
    assert _is_uniform(before, 1, sizes.tokens - sizes.noise - 1)
    assert _is_uniform(first, 1, sizes.noise - 1)
    assert abs(np.corrcoef(before, first)[0, 1]) < 4 / DRAWS**0.5
    together = scipy.stats.contingency.crosstab(before, first).count
    assert scipy.stats.chi2_contingency(together).pvalue > 1e-3
    # The window's last tokens are in the second span.
    assert (rows[:, sizes.total - 1] == window[sizes.tokens - 1]).all()


def test_a_prefix_is_uniform_and_what_follows_it_is_asked_for():
    windows = np.tile(np.arange(60, 60 + N, dtype=np.int32), (DRAWS, 1))
    batch = objectives.make_objective("prefix", N, VOCABULARY)(jax.random.key(1), windows)
    prefix, place = np.asarray(batch.prefix), np.arange(N)
    assert _is_uniform(prefix, 1, N - 1)
    # Inputs begin with a separator: the last of the prefix is asked for the first token behind it.
    np.testing.assert_array_equal(batch.weights, place >= prefix[:, None] - 1)
    np.testing.assert_array_equal(batch.tokens[:, 1:], windows[:, :-1])


def test_ul2_mixes_causal_prefix_and_span_tasks_each_with_its_own_law():
    windows = np.tile(np.arange(60, 60 + N, dtype=np.int32), (2 * DRAWS, 1))
    batch = objectives.make_objective("ul2", N, VOCABULARY)(jax.random.key(2), windows)
    tokens, prefix = np.asarray(batch.tokens), np.asarray(batch.prefix)
    has_spans = (tokens == objectives.FIRST_SENTINEL).any(axis=1)
    shares = [(prefix == 0).mean(), (~has_spans & (prefix > 0)).mean(), has_spans.mean()]
    np.testing.assert_allclose(shares, (0.6, 0.2, 0.2), atol=4 * (0.25 / len(prefix)) ** 0.5)
    assert _is_uniform(prefix[~has_spans & (prefix > 0)], 1, N - 1)
    sizes = objectives.span_sizes(N)
    before = (
        np.argmax(tokens[has_spans] == objectives.FIRST_SENTINEL, axis=1) - 1
    )  # behind a separator
    assert _is_uniform(before, 1, sizes.tokens - sizes.noise - 1)


@pytest.fixture(scope="module")
def windows():
    return np.arange(100, 100 + 64 * N).reshape(64, N).astype(np.int32) % 200 + 60


def test_masked_tokens_are_hidden_as_in_bert(windows):
    asked = objectives.make_objective("masked", N, VOCABULARY)
    batch = jax.tree.map(np.asarray, asked(jax.random.key(1), windows))
    np.testing.assert_array_equal(
        np.take_along_axis(windows, batch.positions, axis=1), batch.targets
    )
    shown = np.take_along_axis(batch.tokens, batch.positions, axis=1)
    assert batch.positions.shape == (64, 6) and batch.weights.all()
    assert (
        0.72 < (shown == objectives.MASK).mean() < 0.88
        and 0.04 < (shown == batch.targets).mean() < 0.17
    )
    assert (batch.tokens != windows).sum(axis=1).max() <= 6
    separators = np.where(
        np.arange(N) < 38, objectives.SEPARATOR, windows
    )  # never predicted or hidden
    few = jax.tree.map(np.asarray, asked(jax.random.key(1), separators))
    assert few.weights.sum(axis=1).tolist() == [2] * 64
    assert {*few.positions[few.weights == 1].tolist()} == {38, 39}
    np.testing.assert_array_equal(few.tokens[:, :38], objectives.SEPARATOR)


def test_spans_and_their_answers_make_up_the_window(windows):
    batch = objectives.make_objective("spans", N, VOCABULARY)(jax.random.key(0), windows)
    batch, sizes = jax.tree.map(np.asarray, batch), objectives.span_sizes(N)
    assert sizes.total <= N and sizes.noise >= 0.12 * sizes.tokens
    for row in range(len(windows)):
        shown = batch.tokens[row, 1 : batch.prefix[row]].tolist()
        answer = batch.targets[row][batch.weights[row] > 0].tolist()
        assert batch.tokens[row, 0] == objectives.SEPARATOR and objectives.PAD not in shown + answer
        spans, rebuilt = {}, []
        for token in answer:
            if token < objectives.FIRST_SENTINEL + sizes.spans:
                last = spans.setdefault(token, [])
            else:
                last.append(token)
        for token in shown:
            rebuilt += spans.pop(token) if token in spans else [token]
        assert rebuilt == windows[row, : sizes.tokens].tolist() and not spans
