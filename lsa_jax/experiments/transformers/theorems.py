"""Gradient descent on the whole population, as in theorems 4.3 and 4.4, in float64.

The theorems' lambda_max is read as the largest eigenvalue of the Hessian on the path: at every
step and half-way to the next. Where an eigenvalue larger than the assumed one is met, descent
starts again with it, so that eta = 1 / lambda_max holds on the whole path.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.transformers import one_layer, sampler
from lsa_jax.sweep.experiment import Config, Outcome
from lsa_jax.training.curvature import largest_eigenvalue

# An eigenvalue counts as larger than assumed from this ratio up: above Lanczos' own error.
_LARGER = 1 + 1e-6

Params = Any
Data = dict[str, Array]
Row = dict[str, float]


class Descent(NamedTuple):
    """A descent and its theorem."""

    # the population loss, of the trained parameters, {"w"} or {"w", "v"}, and of `data`
    loss: Callable[[Params, Data], Array]
    data: Data  # all sequences, with their labels
    start: Params  # the trained parameters before the first step
    fixed: Params  # the others: {"v"} or nothing
    c: float  # scale of V
    delta: float  # least probability of the assumption
    threshold: float  # misclassification implies that the squared gradient in W is above this
    steps_per_eigenvalue: float  # the theorem's bound on the steps over lambda_max


def trained_value_scale(
    sequence_length: int, list_length: int, delta: float, epsilon: float, start_loss: float
) -> float:
    """Returns the lower bound on c of theorem 4.4: (4 l sqrt(M/e) + 6 e/n) 10 n^2 / delta + 4 e.

    n is the sequence's length, M the list's, delta the least probability of a set of tokens, and l
    the larger of the loss at the start and 1.
    """
    slope = 4 * max(1.0, start_loss) * math.sqrt(list_length / epsilon)
    return (slope + 6 * epsilon / sequence_length) * 10 * sequence_length**2 / delta + 4 * epsilon


# Data are an argument of the losses: as constants they would be compiled for every point.
def _fixed_value_loss(params: Params, data: Data) -> Array:
    at = data["sequences"], data["positions"]
    return one_layer.mean_loss_at_permutation(params["w"], data["c"], *at)


def _trained_value_loss(params: Params, data: Data) -> Array:
    return one_layer.mean_loss(params, data["sequences"], data["labels"])


_loss_and_gradient = jax.jit(
    lambda loss, params, data: jax.value_and_grad(loss)(params, data), static_argnums=0
)


@jax.jit
def _count_right(params: Params, data: Data) -> Int[Array, ""]:
    return jnp.count_nonzero(one_layer.strictly_correct(params, data["sequences"], data["labels"]))


def strict_accuracy(params: Params, data: Data) -> float:
    """Returns the exact share of right tokens; a mean of ones may be 1 - 1e-16."""
    return int(_count_right(params, data)) / data["sequences"].size


def fixed_value_descent(config: Config, task: sampler.DecisionLists) -> Descent:
    """Returns theorem 4.3: V = cP, W from 0."""
    tokens, n = config.vocabulary_size, config.sequence_length
    sequences = jnp.asarray(sampler.all_sets(tokens, n))
    delta = sampler.least_triple_probability(task.lists, n)
    c = 4 * n**2 * math.log(tokens) / delta
    return Descent(
        loss=_fixed_value_loss,
        data={
            "sequences": sequences,
            "labels": sampler.label_sequences(task, sequences),
            "positions": sampler.determining_positions(task.lists, sequences),
            "c": jnp.asarray(c),
        },
        start={"w": jnp.zeros((tokens, tokens))},
        fixed={"v": c * jnp.asarray(sampler.permutation_matrix(task.pi))},
        c=c,
        delta=delta,
        threshold=math.log(tokens) ** 2 / (16 * config.list_length),
        steps_per_eigenvalue=32 * config.list_length / math.log(tokens),
    )


def trained_value_descent(config: Config, task: sampler.DecisionLists) -> Descent:
    """Returns theorem 4.4: V from cP + noise uniform on [-epsilon/2, epsilon/2], W from 0."""
    tokens, n, epsilon = config.vocabulary_size, config.sequence_length, config.epsilon
    sequences = jnp.asarray(sampler.all_sets(tokens, n))
    data = {"sequences": sequences, "labels": sampler.label_sequences(task, sequences)}
    delta = 1 / math.comb(tokens, n)  # of each set: assumption 4.4
    key = jax.random.fold_in(jax.random.key(config.seed), sampler.Seed.VALUE_NOISE)
    noise = jax.random.uniform(key, (tokens, tokens), minval=-epsilon / 2, maxval=epsilon / 2)
    permutation = jnp.asarray(sampler.permutation_matrix(task.pi))

    def start_at(c: float) -> Params:
        return {"w": jnp.zeros((tokens, tokens)), "v": c * permutation + noise}

    # The bound on c depends on the loss at the start, which hardly depends on c.
    c, start_loss = 0.0, 0.0
    while c <= (least := trained_value_scale(n, config.list_length, delta, epsilon, start_loss)):
        c = 1.001 * least
        start_loss = float(_loss_and_gradient(_trained_value_loss, start_at(c), data)[0])
    mean = max(1.0, start_loss)
    return Descent(
        loss=_trained_value_loss,
        data=data,
        start=start_at(c),
        fixed={},
        c=c,
        delta=delta,
        threshold=16 * mean**2 / epsilon,
        steps_per_eigenvalue=epsilon / (2 * mean),
    )


def ordered_columns(
    w: Float[np.ndarray, "L L"], lists: Int[np.ndarray, "L M"]
) -> Float[np.ndarray, " L"]:
    """Returns, for every token a, 1 where its column of W follows its list and 0 elsewhere.

    That is w[a_1] > ... > w[a_m] > w[b] for every b that is not in L_a (section 4.3.2).
    """
    found = np.zeros(len(w))
    for a, length in enumerate(sampler.list_lengths(lists)):
        inside = w[lists[a, :length], a]
        outside = np.delete(w[:, a], lists[a, :length])
        found[a] = (np.diff(inside) < 0).all() and inside[-1] > outside.max()
    return found


def list_weights(w: Float[np.ndarray, "L L"], lists: Int[np.ndarray, "L M"]) -> Row:
    """Returns W's mean weight by place in the list, and outside it, over lists of full length."""
    full = np.flatnonzero(sampler.list_lengths(lists) == lists.shape[1])
    if not len(full):
        return {}
    inside = w[lists[full], full[:, None]]
    outside = w[:, full].sum(axis=0) - inside.sum(axis=1)
    row = {f"weight_{place + 1}": float(m) for place, m in enumerate(inside.mean(axis=0))}
    return {**row, "weight_outside": float(outside.mean() / (len(w) - lists.shape[1]))}


def _row(params: Params, descent: Descent, task: sampler.DecisionLists) -> Row:
    """Returns the measures of one step but for its loss and gradient."""
    w = np.asarray(params["w"])
    row = {
        "accuracy": strict_accuracy({**descent.fixed, **params}, descent.data),
        "ordered": float(ordered_columns(w, task.lists).mean()),
        **list_weights(w, task.lists),
    }
    if "v" in params:
        away = np.asarray(params["v"]) - descent.c * sampler.permutation_matrix(task.pi)
        row["value_distance"] = float(np.abs(away).max())
    return row


def _walk(
    config: Config, task: sampler.DecisionLists, descent: Descent, assumed: float
) -> tuple[list[Row], int | None, float]:
    """Descends with eta = 1 / `assumed` until a larger eigenvalue is met, or to the end.

    Returns:
        One row a step; the first step at which every token is right, None where there is none; and
        the largest eigenvalue.
    """
    params, rows, perfect, step = descent.start, [], None, 0
    while True:
        loss, gradient = _loss_and_gradient(descent.loss, params, descent.data)
        if not np.isfinite(loss):
            raise NumericalError(f"the loss is not finite at step {step}")
        row = _row(params, descent, task)
        perfect = step if perfect is None and row["accuracy"] == 1 else perfect
        row |= {"loss": float(loss), "gradient_norm": float(jnp.linalg.norm(gradient["w"]))}
        half, after = (
            jax.tree.map(lambda p, g, part=part: p - part / assumed * g, params, gradient)
            for part in (0.5, 1.0)
        )
        met = max(largest_eigenvalue(descent.loss, at, descent.data) for at in (params, half))
        rows.append({"step": step, **row, "eigenvalue": met})
        last = config.max_steps if perfect is None else perfect + config.steps_after
        if met > assumed * _LARGER or step == last:
            return rows, perfect, max(met, assumed)
        params, step = after, step + 1


def run_theorem(config: Config, task: sampler.DecisionLists) -> Outcome:
    """Runs theorem 4.3 or 4.4 at one point and measures its quantities.

    Raises:
        NumericalError: a loss or a Hessian is not finite, or Lanczos does not converge.
    """
    fixed = config.question == "value_fixed"
    with jax.enable_x64(True):
        descent = (fixed_value_descent if fixed else trained_value_descent)(config, task)
        assumed = -np.inf
        largest = largest_eigenvalue(descent.loss, descent.start, descent.data)
        while largest > assumed:
            assumed = largest
            rows, perfect, largest = _walk(config, task, descent, assumed)
    wrong = [row for row in rows if row["accuracy"] < 1]
    metrics: dict[str, Any] = {
        "delta": descent.delta,
        "c": descent.c,
        "eigenvalue": largest,
        "first_perfect": perfect,
        "bound": descent.steps_per_eigenvalue * largest,
        "start_accuracy": rows[0]["accuracy"],
        "start_loss": rows[0]["loss"],
        "largest_rise": float(np.diff([row["loss"] for row in rows]).max(initial=-np.inf)),
    }
    if wrong:  # labels that all tokens of a sequence share may be right at W = 0
        least = min(row["gradient_norm"] for row in wrong)
        metrics["least_slope_ratio"] = least**2 / descent.threshold
    if perfect is not None:
        metrics["ordered"] = rows[perfect]["ordered"]
    if not fixed:
        metrics["value_distance"] = max(r["value_distance"] for r in rows) / config.epsilon
    return Outcome(metrics, rows)
