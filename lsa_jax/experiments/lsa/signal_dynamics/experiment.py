"""How one filter learns to find a sparse signal: Algorithm 1, step by step.

Karp et al. (NeurIPS 2021), section 4 and figure 3. Everything random is a function of (seed, step),
and points that differ only in seed, noise and learning rates run together as replicas.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, Key

from lsa_jax.experiments.lsa.signal.networks import (
    draw_examples,
    make_network,
    make_sampler,
    signal_vector,
)
from lsa_jax.experiments.lsa.signal.population import bias_rate_ratio
from lsa_jax.experiments.lsa.signal_dynamics.report import make_report
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, with_last_measures
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import Course, Measuring, course_of
from lsa_jax.training.losses import is_correct
from lsa_jax.training.segments import Checkpoints, Evaluations, run_evaluations

# Settings in which the replicas of a group may differ.
VARYING = ("seed", "noise_scale", "learning_rate", "bias_learning_rate_ratio")

# Measures that are a run's result.
_RESULTS = ("test_accuracy", "w_dot_wstar", "w_perp_norm", "b", "ratio", "train_loss")

Row = dict[str, Float[Array, ""]]
Tree = Any


class SignalDynamics:
    """Random streams of a seed's key: start, minibatches, test examples, examples for measures."""

    INIT, TRAIN, TEST, MEASURED = range(4)


class FilterReplica(NamedTuple):
    """One run's key, its standard deviation of the noise, and its rates eta_w and eta_b."""

    key: Key[Array, ""]
    sigma: Float[Array, ""]
    learning_rate: Float[Array, ""]
    bias_learning_rate: Float[Array, ""]


class FilterState(NamedTuple):
    """One run between two steps, with the part of w orthogonal to w* at the last evaluation.

    `step` stays where it is once a step led to numbers that are not finite.
    """

    params: Tree
    step: Int[Array, ""]
    w_perp: Float[Array, " d"]


def make_replica(config: Config) -> FilterReplica:
    """Returns a run's own numbers, from its settings."""
    return FilterReplica(
        key=jax.random.key(config.seed),
        sigma=jnp.float32(noise_std(config.k, config.noise_scale)),
        learning_rate=jnp.float32(config.learning_rate),
        bias_learning_rate=jnp.float32(config.learning_rate * bias_rate_ratio(config)),
    )


def init_state(config: Config, replica: FilterReplica) -> FilterState:
    """Returns the start of Algorithm 1: w ~ N(0, init_scale^2 I), b = 0."""
    key = jax.random.fold_in(replica.key, SignalDynamics.INIT)
    params = make_network(config).init(key, config.init_scale, config.d)
    return FilterState(params, jnp.int32(0), jnp.zeros(config.d))


def _is_finite(*trees: object) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(trees)]).all()


def _test_accuracy(config: Config, params: Tree, step: Array, replica: FilterReplica) -> Array:
    """Returns the accuracy on fresh test examples, drawn in pieces of a minibatch's size."""
    key = jax.random.fold_in(jax.random.fold_in(replica.key, SignalDynamics.TEST), step)
    sampler = make_sampler(config)

    def piece(index: Array) -> Array:
        return sampler.margins(jax.random.fold_in(key, index), params, replica.sigma)

    pieces = -(-config.num_test // config.batch_size)
    margins = lax.map(piece, jnp.arange(pieces)).reshape(-1)[: config.num_test]
    return jnp.mean(is_correct(margins[:, None], jnp.ones_like(margins)))


def train_steps(
    config: Config, state: FilterState, replica: FilterReplica, num_steps: Int[Array, ""]
) -> tuple[FilterState, Float[Array, ""], Tree]:
    """Takes steps of Algorithm 1, each on a fresh minibatch.

    A step whose loss, gradient or result is not finite is not taken, nor is any after it.

    Returns:
        The state after the steps, and loss and gradient there, on the next step's minibatch.
    """
    stream = jax.random.fold_in(replica.key, SignalDynamics.TRAIN)
    rates = make_network(config).rates(replica.learning_rate, replica.bias_learning_rate)
    gradient_at = make_sampler(config).gradient
    first = state.step

    def take(
        index: Array, carry: tuple[FilterState, Array, Tree]
    ) -> tuple[FilterState, Array, Tree]:
        state, step = carry[0], first + index
        loss, gradient = gradient_at(jax.random.fold_in(stream, step), state.params, replica.sigma)
        params = jax.tree.map(lambda p, rate, g: p - rate * g, state.params, rates, gradient)
        going = (state.step == step) & _is_finite(loss, gradient, params)
        # The last gradient is only measured.
        going &= index < num_steps
        after = state._replace(params=params, step=step + 1)
        state = jax.tree.map(lambda new, old: jnp.where(going, new, old), after, state)
        return state, loss, gradient

    start = (state, jnp.float32(0), jax.tree.map(jnp.zeros_like, state.params))
    return lax.fori_loop(0, num_steps + 1, take, start)


def advance(
    config: Config, state: FilterState, replica: FilterReplica, num_steps: Int[Array, ""]
) -> tuple[FilterState, Row]:
    """Takes steps of Algorithm 1 and measures the run where it then stands.

    The cosine is between the parts of w orthogonal to w* now and at the evaluation before; NaN at
    the first evaluation, or where one is zero.
    """
    state, loss, gradient = train_steps(config, state, replica, num_steps)
    network, signal = make_network(config), signal_vector(config)
    (w, b), gradient = network.summary(state.params), network.summary(gradient)
    along = jnp.sum(w * signal)
    w_perp = w - along * signal
    norm = jnp.linalg.norm(w_perp)
    row = {
        "w_dot_wstar": along,
        "w_perp_norm": norm,
        "b": b,
        "ratio": jnp.abs(b) / along,
        "test_accuracy": _test_accuracy(config, state.params, state.step, replica),
        "train_loss": loss,
        "grad_b": gradient.b,
        "grad_norm": jnp.linalg.norm(gradient.w),
        "grad_dot_wstar": jnp.sum(gradient.w * signal),
        "w_perp_cosine": jnp.sum(w_perp / norm * (state.w_perp / jnp.linalg.norm(state.w_perp))),
        **network.details(state.params, signal),
    }
    return state._replace(w_perp=w_perp), row


def run_until(
    finished: Callable[[Evaluations], bool], group: list[Point], directory: Path, progress: Progress
) -> Evaluations:
    """Trains and measures the runs of a group together until they are finished.

    They go on from their last checkpoint in the directory, if there is one.
    """
    config, layout = group[0].config, ReplicaLayout(len(group))
    replicas = [make_replica(point.config) for point in group]
    spread = layout.spread(jax.tree.map(lambda *leaves: jnp.stack(leaves), *replicas))
    program = layout.map(functools.partial(advance, config), 2)
    start = layout.gather(layout.map(functools.partial(init_state, config), 1)(spread))
    steps = [*range(0, config.steps, config.eval_every), config.steps]
    return run_evaluations(
        layout,
        lambda state, count: program(state, spread, count),
        [start],
        steps,
        kept=Checkpoints(directory, config.checkpoint_every),
        finished=finished,
        course=_course(config, replicas, start.params, steps),
        progress=progress,
    )


def _course(
    config: Config, replicas: list[FilterReplica], start: Tree, steps: list[int]
) -> Course | None:
    """Returns the measures along training; None if there are none.

    Examples are fresh at every step, so the measures have a batch of their own.
    """

    def fetch(replica: int, index: Array) -> tuple[Array, Array]:
        own = replicas[replica]
        key = jax.random.fold_in(own.key, SignalDynamics.MEASURED)
        batch = draw_examples(config, key, own.sigma)
        return batch.inputs[index], batch.targets[index]

    return course_of(
        Measuring(config.measures, config.measured_examples),
        make_network(config).apply,
        start,
        fetch,
        config.batch_size,
        steps,
        config.batch_size * steps[-1],
    )


def outcome(runs: Evaluations, replica: int) -> Outcome:
    """Returns one run's outcome where the last evaluation was made."""
    history = runs.history(replica)
    results = {name: history[-1][name] for name in _RESULTS}
    if runs.stopped[replica] or not np.isfinite(results["train_loss"]):
        taken = int(runs.state.step[replica])
        message = f"the loss was not finite at step {taken}; lower config.learning_rate"
        return Outcome({}, history, "failed", message)
    return with_last_measures(Outcome(results, history), runs.cost)


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains and measures the runs of a group together; one that is not finite fails alone."""
    del data
    runs = run_until(lambda runs: bool(runs.stopped.all()), group, directory, progress)
    return [outcome(runs, replica) for replica in range(len(group))]


EXPERIMENT = Experiment(
    run=run, report=make_report, report_version=2, varying=VARYING, fresh=lambda config: True
)
