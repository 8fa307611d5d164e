"""W and V trained together from a V that is more or less random.

The thesis proves success from V near cP and leaves the rest open. V_0 = c ((1 - r) P + r U), with
the entries of U uniform on [-1, 1], goes from cP at r = 0 to random at r = 1; W_0 = 0. Gradient
descent is on the whole population; points that differ in lists, V_0 and c alone are replicas.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from lsa_jax.experiments.transformers import sampler
from lsa_jax.experiments.transformers.one_layer import logits, mean_loss, strictly_correct
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.sweep.experiment import Config, Outcome, Point, Progress, with_last_measures
from lsa_jax.training.course import Course, Measuring, course_of
from lsa_jax.training.segments import Checkpoints, Evaluations, run_evaluations

Params = dict[str, Array]
Row = dict[str, Array]
Sequences = Int[Array, "sequences n"]


class AttentionReplica(NamedTuple):
    """Arrays of one run."""

    start: Params  # W_0 = 0 and V_0
    scale: Float[Array, ""]  # c
    permutation: Float[Array, "L L"]  # P
    labels: Sequences  # of all sequences


class AttentionState(NamedTuple):
    """One run between two steps; `finite` turns False with the first loss that is not finite."""

    params: Params
    finite: Bool[Array, ""]


def make_replica(
    config: Config, task: sampler.DecisionLists, sequences: Sequences
) -> AttentionReplica:
    """Returns the arrays of one run, from its settings and lists."""
    key = jax.random.fold_in(jax.random.key(config.seed), sampler.Seed.VALUES)
    shape = (config.vocabulary_size, config.vocabulary_size)
    uniform = jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)
    permutation = jnp.asarray(sampler.permutation_matrix(task.pi), jnp.float32)
    r, scale = config.randomness, jnp.float32(config.value_scale)
    v = scale * ((1 - r) * permutation + r * uniform)
    start = {"w": jnp.zeros(shape), "v": v}
    return AttentionReplica(start, scale, permutation, sampler.label_sequences(task, sequences))


def advance(
    learning_rate: float,
    state: AttentionState,
    replica: AttentionReplica,
    sequences: Sequences,
    num_steps: Int[Array, ""],
) -> tuple[AttentionState, Row]:
    """Takes steps of gradient descent on the population loss, then measures the run."""
    loss_and_gradient = jax.value_and_grad(mean_loss)

    def take(_: Array, state: AttentionState) -> AttentionState:
        loss, gradient = loss_and_gradient(state.params, sequences, replica.labels)
        params = jax.tree.map(lambda p, g: p - learning_rate * g, state.params, gradient)
        finite = state.finite & jnp.isfinite(loss)
        return AttentionState(params, finite)

    state = lax.fori_loop(0, num_steps, take, state)
    params, permutation = state.params, replica.permutation
    v = params["v"]
    right = strictly_correct(params, sequences, replica.labels)
    entries = jnp.stack([v.ravel(), permutation.ravel()])
    row = {
        "loss": mean_loss(params, sequences, replica.labels),
        "accuracy": jnp.mean(right),
        "perfect": jnp.all(right).astype(v.dtype),
        "correlation": jnp.corrcoef(entries)[0, 1],
        "columns_right": jnp.mean(jnp.argmax(v, axis=0) == jnp.argmax(permutation, axis=0)),
        "distance": jnp.max(jnp.abs(v / replica.scale - permutation)),
    }
    return state, row


def make_course(
    config: Config, starts: Any, sequences: Sequences, labels: list[Sequences], marks: list[int]
) -> Course | None:
    """Returns measures of how lazy or rich training is, of sequences' last tokens; None for none.

    All tokens of a sequence have n L outputs, whose derivatives would not fit into memory. Tokens
    are in no order, so the last one stands for all.
    """

    def last_logits(params: Params, sequences: Array) -> Array:
        return logits(params, sequences)[:, -1]

    def fetch(replica: int, index: Array) -> tuple[Array, Array]:
        wanted = labels[replica][index, -1]
        return sequences[index], jax.nn.one_hot(wanted, config.vocabulary_size)

    measuring, count = Measuring(config.measures, config.measured_examples), len(sequences)
    return course_of(measuring, last_logits, starts, fetch, count, marks, count * marks[-1])


def run_training(
    group: list[Point], tasks: list[sampler.DecisionLists], directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains and measures the runs of a group together; one that diverges has failed."""
    config, layout = group[0].config, ReplicaLayout(len(group))
    sequences = jnp.asarray(sampler.all_sets(config.vocabulary_size, config.sequence_length))
    replicas = [make_replica(p.config, t, sequences) for p, t in zip(group, tasks, strict=True)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *replicas)
    steps = [*range(0, config.steps, config.eval_every), config.steps]
    spread, shared = layout.spread(stacked), layout.share(sequences)
    program = layout.map(functools.partial(advance, config.learning_rate), 2)
    runs = run_evaluations(
        layout,
        lambda state, count: program(state, spread, shared, count),
        [AttentionState(stacked.start, jnp.ones(len(group), bool))],
        steps,
        kept=Checkpoints(directory, config.checkpoint_every),
        finished=lambda runs: not runs.state.finite.any(),
        course=make_course(
            config, layout.gather(spread.start), sequences, [r.labels for r in replicas], steps
        ),
        progress=progress,
    )
    return [_outcome(config, runs, replica) for replica in range(len(group))]


def _outcome(config: Config, runs: Evaluations, replica: int) -> Outcome:
    """Returns one run's outcome at the end."""
    steps, finite = runs.steps, np.isfinite(runs.table["loss"][:, replica])
    history = [runs.row(replica, place) for place in np.flatnonzero(finite).tolist()]
    if not runs.state.finite[replica] or len(history) < len(steps):
        message = f"the loss was not finite at step {steps[max(len(history) - 1, 0)]}"
        return Outcome({}, history, "failed", f"{message}; lower config.learning_rate")
    perfect = [row["step"] for row in history if row["perfect"]]
    metrics = {
        "start_distance": history[0]["distance"],
        "start_columns_right": history[0]["columns_right"],
        "success": history[-1]["perfect"],
        "first_perfect": perfect[0] if perfect else None,
        **{n: history[-1][n] for n in ("accuracy", "loss", "columns_right", "correlation")},
    }
    return with_last_measures(Outcome(metrics, history), runs.cost)
