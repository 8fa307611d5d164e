"""One step of gradient descent on V at W = 0 and its correlation with P (figure 4.1).

At W = 0 a token attends equally to all tokens of its sequence. There the gradient of the population
loss follows by counting from how often labels and tokens meet; or it is taken over samples.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from lsa_jax.experiments.transformers import sampler
from lsa_jax.experiments.transformers.one_layer import mean_loss_at_uniform_attention
from lsa_jax.experiments.transformers.training import make_course
from lsa_jax.sweep.experiment import Config, Outcome, with_last_measures

# Default number of sequences for measures: one step is too short to spend a tenth of it on them.
_MEASURED = 16

# Sequences per gradient; sums over more of them would not fit into memory.
_PIECE = 500

Matrix = Float[Array | np.ndarray, "L L"]


def label_meetings(task: sampler.DecisionLists, sequence_length: int) -> Matrix:
    """Returns how often label l and token k meet: sum over tokens a of Pr(y_a = l, and a, k in s).

    Token a has the label pi(a_j) where a and a_j are in the sequence and a_1, ..., a_{j-1} are not.
    """
    tokens = len(task.pi)
    meetings = np.zeros((tokens, tokens))
    for a, length in enumerate(sampler.list_lengths(task.lists)):
        members = task.lists[a, :length]
        for j, determining in enumerate(members):
            inside = {a, determining}
            at = (tokens, sequence_length)
            row = np.full(tokens, sampler.presence_probability(*at, len(inside) + 1, j))
            row[list(inside)] = sampler.presence_probability(*at, len(inside), j)
            row[members[:j]] = 0
            meetings[task.pi[determining]] += row
    return meetings


def population_gradient(task: sampler.DecisionLists, sequence_length: int, v: Matrix) -> Matrix:
    """Computes the gradient of the population loss in V at W = 0, without listing sequences.

    It is E[(sigma_l - share of labels l) 1[k in s]] / n. The labels' part is exact. The softmax
    sigma is taken to first order in V, whose entries must be far below 1: the error is of the order
    of V's square, 1e-10 of the softmax' part for entries of 1e-4 and n = 25.
    """
    tokens, n = v.shape[0], sequence_length
    one, two = n / tokens, n * (n - 1) / (tokens * (tokens - 1))
    # E[1[i in s] 1[k in s]], and with it E[z_l 1[k in s]] for the logits z = V 1_s / n.
    together = np.full((tokens, tokens), two) + (one - two) * np.eye(tokens)
    logits = v @ together / n
    softmax = (one + logits - logits.mean(axis=0, keepdims=True)) / tokens
    return softmax / n - label_meetings(task, n) / n**2


def sampled_gradient(
    key: Key[Array, ""],
    task: sampler.DecisionLists,
    sequence_length: int,
    v: Matrix,
    num_sequences: int,
) -> tuple[Matrix, Float[Array, ""]]:
    """Computes the gradient in V at W = 0 over sampled sequences.

    Returns:
        The gradient, and the largest accuracy of any V with W = 0: all tokens of a sequence then
        have the same prediction, so it is the share of the commonest label.
    """
    lists = jax.tree.map(jnp.asarray, task)
    whole, rest = divmod(num_sequences, _PIECE)
    sums = jnp.zeros_like(v), jnp.zeros(())
    for index, size in enumerate([_PIECE] * whole + [rest] * (rest > 0)):
        piece_key = jax.random.fold_in(key, index)
        piece = _piece_sums(piece_key, lists, sequence_length, v, size)
        sums = jax.tree.map(jnp.add, sums, piece)
    return jax.tree.map(lambda total: total / num_sequences, sums)


@functools.partial(jax.jit, static_argnames=("sequence_length", "size"))
def _piece_sums(
    key: Key[Array, ""], task: sampler.DecisionLists, sequence_length: int, v: Matrix, size: int
) -> tuple[Matrix, Float[Array, ""]]:
    """Sums, over `size` sequences, the gradient and the share of the commonest label."""
    sequences = sampler.sample_sequences(key, size, v.shape[0], sequence_length)
    labels = sampler.label_sequences(task, sequences)
    same = jnp.sum(labels[:, :, None] == labels[:, None, :], axis=2)
    commonest = jnp.sum(jnp.max(same, axis=1)) / sequence_length
    gradient = jax.grad(mean_loss_at_uniform_attention)(v, sequences, labels)
    return size * gradient, commonest


def picked_up(v: Matrix, pi: Int[np.ndarray, " L"]) -> dict[str, float]:
    """Returns measures of P in V.

    `columns_right`: share of columns k whose largest entry is in row pi(k); `correlation` of the
    entries of V with those of P; mean and extreme of V where P is 1 ("on") and 0 ("off").
    """
    permutation = sampler.permutation_matrix(pi)
    on, off = v[permutation == 1], v[permutation == 0]
    return {
        "columns_right": float(np.mean(v.argmax(axis=0) == pi)),
        "correlation": float(np.corrcoef(v.ravel(), permutation.ravel())[0, 1]),
        "on_mean": float(on.mean()),
        "on_min": float(on.min()),
        "off_mean": float(off.mean()),
        "off_max": float(off.max()),
    }


def start_of(config: Config) -> dict[str, Array]:
    """Returns W = 0 and V_0 ~ N(0, value_std^2)."""
    key = jax.random.fold_in(jax.random.key(config.seed), sampler.Seed.INIT)
    shape = (config.vocabulary_size, config.vocabulary_size)
    return {"w": jnp.zeros(shape), "v": config.value_std * jax.random.normal(key, shape)}


def value_after_step(
    config: Config, task: sampler.DecisionLists
) -> tuple[Matrix, dict[str, float]]:
    """Takes the step of figure 4.1; returns V after it, and metrics of a sampled gradient."""
    key, n, v = jax.random.key(config.seed), config.sequence_length, start_of(config)["v"]
    eta = config.vocabulary_size**2 if config.step_size is None else config.step_size
    if config.gradient == "exact":
        v = np.asarray(v, np.float64)
        return v - eta * population_gradient(task, n, v), {}
    stream = jax.random.fold_in(key, sampler.Seed.SEQUENCES)
    gradient, commonest = sampled_gradient(stream, task, n, v, config.num_sequences)
    after = np.asarray(v, np.float64) - eta * np.asarray(gradient, np.float64)
    return after, {"uniform_attention_limit": float(commonest)}


def run_step(config: Config, task: sampler.DecisionLists) -> Outcome:
    """Takes the step of figure 4.1 at one point; measures P in V, and the network."""
    after, limit = value_after_step(config, task)
    outcome = Outcome({**picked_up(after, task.pi), **limit}, [])
    if not config.measures:
        return outcome
    key = jax.random.fold_in(jax.random.key(config.seed), sampler.Seed.MEASURED)
    count = config.measured_examples or _MEASURED
    sequences = sampler.sample_sequences(key, count, config.vocabulary_size, config.sequence_length)
    labels = sampler.label_sequences(jax.tree.map(jnp.asarray, task), sequences)
    start = jax.tree.map(lambda leaf: np.asarray(leaf)[None], start_of(config))
    course = make_course(config, start, sequences, [labels], [0, 1])
    course.take(0, start)
    course.take(1, start | {"v": np.asarray(after, np.float32)[None]})
    return with_last_measures(outcome._replace(history=course.rows_of(0)), course.cost([], 1))
