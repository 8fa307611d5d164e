"""A three-layer ResNet, other nets and kernels on a two-stage target.

Allen-Zhu and Li (2019), section 8.1: figures 2 and 3; which part of the ResNet does it; error
against the number of examples (theorem 2); base signal first, composite one after. Each point is a
whole search of learning rate and weight decay, or a kernel solved exactly.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsa_jax.experiments.resnet.hierarchical import tasks
from lsa_jax.experiments.resnet.hierarchical.kernels import run_exact
from lsa_jax.experiments.resnet.hierarchical.report import make_report
from lsa_jax.experiments.resnet.hierarchical.settings import (
    INPUT_LEARNERS,
    KERNEL_LEARNERS,
    NETWORK_LEARNERS,
    SEARCHED,
)
from lsa_jax.experiments.resnet.search import Grid, Plan, Search, make_grid
from lsa_jax.experiments.resnet.shallow import first_features
from lsa_jax.reporting import outcomes
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, Progress, with_course, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import NOTHING, Measuring

# Over the mean squared feature: read-outs have more examples than features, but these may be
# linearly dependent.
_READOUT_RIDGE = 1e-6


def _setting(config: Config, name: str) -> tuple:
    """Returns a setting of the search; kernels have settings of their own."""
    return config.search[f"kernel_{name}" if config.learner in KERNEL_LEARNERS else name]


def candidates(config: Config) -> Grid:
    """Returns learning rate and weight decay of every candidate of a learner's search."""
    return make_grid(_setting(config, "learning_rates"), _setting(config, "weight_decays"))


def make_search(config: Config, plan: Plan) -> Search:
    """Returns the search of a learner, for all seeds."""
    apply, frozen = tasks.trained_function(config)
    fetch = tasks.fetch_linearized if config.learner == "ntk" else None
    return Search(apply, plan, frozen=frozen, fetch=fetch)


def make_plan(config: Config) -> Plan:
    """Returns the search's plan; an answer of 0 has the targets' mean square as its error."""
    mean_square = tasks.num_outputs(config) * (config.beta**2 + config.alpha**2)
    rungs = zip(config.search.rung_epochs, _setting(config, "rung_keep"), strict=True)
    return Plan.of(config, dict(rungs), config.search.hopeless * mean_square)


def share_missed(outputs: Float[Array, "n k"], signal: Float[Array, "n k"]) -> Float[Array, ""]:
    """Returns the missed share of a signal: 1 if outputs have none of it, 0 for all.

    With c_i the coefficient of the outputs' projection on signal i, it is the mean of (1 - c_i)^2
    weighted by the signals' mean squares. Other parts of the outputs do not count.
    """
    squares = jnp.mean(signal**2, axis=0)
    coefficients = jnp.mean(outputs * signal, axis=0) / squares
    return jnp.sum((1 - coefficients) ** 2 * squares) / jnp.sum(squares)


@jax.default_matmul_precision("highest")
def readout_error(
    features: Float[Array, "n m"],
    signal: Float[Array, "n k"],
    test_features: Float[Array, "t m"],
    test_signal: Float[Array, "t k"],
) -> Float[Array, ""]:
    """Returns the best linear read-out's squared error, over the signal's mean square.

    The read-out, with a constant, is fitted by least squares on the first examples and tested on
    the second.
    """

    def with_constant(x: Array) -> Array:
        return jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1)

    features, test_features = with_constant(features), with_constant(test_features)
    gram = features.T @ features / len(features)
    ridge = _READOUT_RIDGE * jnp.mean(jnp.diag(gram)) * jnp.eye(len(gram))
    readout = jnp.linalg.solve(gram + ridge, features.T @ signal / len(features))
    error = jnp.sum(jnp.mean((test_features @ readout - test_signal) ** 2, axis=0))
    return error / jnp.sum(jnp.mean(test_signal**2, axis=0))


def make_measure(config: Config, task: tasks.HierarchicalTask) -> Callable:
    """Returns the compiled measures of one network's parameters.

    They are `test_error`, `first_layer_error` (of the first layer's best linear read-out on beta F,
    over its mean square), `base_error` and `composite_error` (the share of beta F and of alpha G(F)
    that the outputs miss).
    """
    apply, _ = tasks.trained_function(config)
    initial, probe = tasks.initial_params(config), tasks.draw_probe(config)
    base, composite = tasks.signals(task.hierarchy, task.test.inputs)
    probe_base, _ = tasks.signals(task.hierarchy, probe.inputs)
    _, _, test = tasks.make_training(config, task)
    inputs = (initial, task.test.inputs) if config.learner == "ntk" else test.inputs

    @jax.jit
    def measure(params: Any) -> dict[str, Array]:
        outputs = apply(params, inputs)
        # A kernel has the initial network's features.
        moved = params if config.learner in ("all", "hidden") else initial
        of_probe, of_test = (first_features(moved, x) for x in (probe.inputs, task.test.inputs))
        return {
            "test_error": jnp.mean(jnp.sum((outputs - task.test.targets) ** 2, axis=1)),
            "first_layer_error": readout_error(of_probe, probe_base, of_test, base),
            "base_error": share_missed(outputs, base),
            "composite_error": share_missed(outputs, composite),
        }

    return measure


def _watched(config: Config, task: tasks.HierarchicalTask, outcome: Outcome) -> Outcome:
    """Trains a search's winner once more, and measures both signals in between."""
    plan = make_plan(config)._replace(eval_every=config.watch_every, rungs={})
    winner = make_grid([outcome.metrics["learning_rate"]], [outcome.metrics["weight_decay"]])
    start, train, test = tasks.make_training(config, task)
    measure, rows = make_measure(config, task), []

    def observe(epoch: int, params: Any) -> None:
        first = jax.tree.map(lambda a: a[0], params)
        rows.append({"epoch": epoch, **{n: float(v) for n, v in measure(first).items()}})

    observe(0, jax.tree.map(lambda a: a[None], start))
    search = make_search(config, plan)
    search.run(tasks.order_key(config), start, train, test, winner, observe=observe)
    learned = {
        f"{name}_epoch": next((r["epoch"] for r in rows if r[f"{name}_error"] <= 1 / 2), None)
        for name in ("base", "composite")
    }
    last = {name: value for name, value in rows[-1].items() if name != "epoch"}
    return outcome._replace(metrics=outcome.metrics | learned | last, history=rows)


def _search(
    search: Search,
    config: Config,
    directory: Path,
    progress: Progress,
) -> Outcome:
    """Searches for one seed: the winner's last row, and a row an evaluation of each candidate."""
    task, grid = tasks.make_task(config), candidates(config)
    start, train, test = tasks.make_training(config, task)
    # Features and kernels of the other learners stay as they are.
    measured = config.learner in NETWORK_LEARNERS
    found = search.run(
        tasks.order_key(config),
        start,
        train,
        test,
        grid,
        checkpoint_dir=directory / SCRATCH / f"seed_{config.seed}",
        progress=progress,
        measuring=Measuring(config.measures, config.measured_examples) if measured else NOTHING,
    )
    history = [
        {
            "epoch": epoch,
            **{name: values[candidate].item() for name, values in grid.items()},
            "train_error": found.train_error[place, candidate].item(),
            "test_error": found.test_error[place, candidate].item(),
            "best": bool(candidate == found.best),
        }
        for place, epoch in enumerate(found.epochs)
        for candidate in np.flatnonzero(found.trained >= epoch)
    ]
    if found.best is None:
        message = f"none of {len(found.trained)} candidates reached epoch {config.epochs}"
        outcome = Outcome({}, history, "failed", f"{message}; lower the rates in config.search")
        return with_course(outcome, found.measured, found.cost)
    last = [row for row in history if row["best"]][-1]
    names = ("test_error", "train_error", "learning_rate", "weight_decay")
    metrics = {name: last[name] for name in names} | {
        "candidates": len(found.trained),
        "candidates_finished": int(np.sum(found.trained == config.epochs)),
    }
    squares = np.asarray(search.distances(found, found.best, test))
    kept = outcomes.of_errors(squares, np.asarray(task.test.targets))
    (outcome,) = with_test([Outcome(metrics, history, outcomes=kept)], task.test)
    if config.question == "epochs":
        outcome = _watched(config, task, outcome)
    return with_course(outcome, found.measured, found.cost)


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Searches for every seed of a group, or solves its kernel."""
    del data
    config = group[0].config
    if config.learner not in SEARCHED:
        return [run_exact(point.config) for point in group]
    search = make_search(config, make_plan(config))

    def of_seed(place: int) -> Outcome:
        def share(part: float) -> None:
            progress((place + part) / len(group))

        return _search(search, group[place].config, directory, share)

    return [of_seed(place) for place in range(len(group))]


def _columns(config: Config) -> dict[str, Any]:
    names = ["net", "learner", "d", "base_degree", "composite_degree", "alpha", "beta", "num_train"]
    has_width = config.learner not in INPUT_LEARNERS and not config.learner.endswith("infinite")
    settings = {name: config[name] for name in (*names, *(["width"] if has_width else []), "seed")}
    return settings | {"outputs": tasks.num_outputs(config)}


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    # The seeds of a search share its programs; exact kernels run alone.
    varying=lambda config: ("seed",) if config.learner in SEARCHED else (),
    columns=_columns,
    fresh=lambda config: True,
    report_version=2,
)
