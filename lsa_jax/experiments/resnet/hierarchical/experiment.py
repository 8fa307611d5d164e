"""What a three-layer ResNet learns of a two-stage target, beside other nets and kernels.

Allen-Zhu and Li (2019), section 8.1: figures 2 and 3; which part of the ResNet does it; error
against the number of examples (theorem 2); base signal first, composite one after. Each point is a
whole search of learning rate and weight decay, or a kernel solved exactly.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np

from lsa_jax.experiments.resnet.hierarchical.kernels import run_exact
from lsa_jax.experiments.resnet.hierarchical.report import make_report
from lsa_jax.experiments.resnet.hierarchical.settings import (
    INPUT_LEARNERS,
    KERNEL_LEARNERS,
    NETWORK_LEARNERS,
    SEARCHED,
)
from lsa_jax.experiments.resnet.hierarchical.signals import watch
from lsa_jax.experiments.resnet.hierarchical.tasks import (
    HierarchicalTask,
    fetch_linearized,
    make_task,
    make_training,
    num_outputs,
    order_key,
    trained_function,
)
from lsa_jax.experiments.resnet.momentum import momentum_search
from lsa_jax.experiments.resnet.search import (
    Plan,
    Rung,
    Search,
    SearchResult,
)
from lsa_jax.sweep.experiment import (
    SCRATCH,
    Experiment,
    Outcome,
    no_data,
    with_course,
    with_settings,
)
from lsa_jax.sweep.points import Point, group_points
from lsa_jax.training.course import NOTHING, Measuring


def groups(points: list[Point]) -> list[list[Point]]:
    """Puts the seeds of a search together, which share its programs; exact kernels are single."""
    return group_points(points, lambda config: ("seed",) if config.learner in SEARCHED else ())


def _search(config: ml_collections.ConfigDict, name: str) -> tuple:
    """Returns a setting of the search that networks and kernels have each their own of."""
    return config.search[f"kernel_{name}" if config.learner in KERNEL_LEARNERS else name]


def candidates(config: ml_collections.ConfigDict) -> dict[str, np.ndarray]:
    """Returns learning rate and weight decay of every candidate of a learner's search."""
    rates, decays = _search(config, "learning_rates"), _search(config, "weight_decays")
    grid = np.array(list(itertools.product(rates, decays)), np.float32)
    return {"learning_rate": grid[:, 0], "weight_decay": grid[:, 1]}


def make_search(config: ml_collections.ConfigDict, plan: Plan) -> Search:
    """Returns the search of a learner, for all seeds."""
    apply, frozen = trained_function(config)
    fetch = fetch_linearized if config.learner == "ntk" else None
    return momentum_search(apply, plan, config, frozen=frozen, fetch=fetch)


def make_plan(config: ml_collections.ConfigDict) -> Plan:
    """Returns the search's plan; an answer of 0 has the targets' mean square as its error."""
    mean_square = num_outputs(config) * (config.beta**2 + config.alpha**2)
    rungs = zip(config.search.rung_epochs, _search(config, "rung_keep"), strict=True)
    return Plan(
        epochs=config.epochs,
        batch_size=min(config.batch_size, config.num_train),
        eval_every=config.eval_every,
        rungs=tuple(Rung(*rung) for rung in rungs),
        hopeless=config.search.hopeless * mean_square,
    )


def _history(found: SearchResult, grid: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Returns one row an evaluation of every candidate that got so far."""
    rows = []
    for place, epoch in enumerate(found.epochs):
        for candidate in np.flatnonzero(found.trained >= epoch):
            values = {name: _plain(array[candidate]) for name, array in grid.items()}
            errors = {
                "train_error": found.train_error[place, candidate].item(),
                "test_error": found.test_error[place, candidate].item(),
            }
            rows.append({"epoch": epoch, **values, **errors, "best": bool(candidate == found.best)})
    return rows


def _plain(value: np.floating) -> float:
    """Returns a float32 as the short decimal that it was written as."""
    return float(f"{value:.6g}")


def _outcome(
    config: ml_collections.ConfigDict, found: SearchResult, grid: dict[str, np.ndarray]
) -> Outcome:
    """Returns a search's outcome: the winner, or that there is none."""
    history = _history(found, grid)
    if found.best is None:
        message = f"none of {len(found.trained)} candidates reached epoch {config.epochs}"
        return Outcome({}, history, "failed", f"{message}; lower the rates in config.search")
    metrics = {
        "test_error": found.test_error[-1, found.best].item(),
        "train_error": found.train_error[-1, found.best].item(),
        **{name: _plain(values[found.best]) for name, values in grid.items()},
        "candidates": len(found.trained),
        "candidates_finished": int(np.sum(found.trained == config.epochs)),
    }
    return Outcome(metrics, history)


def _watched(
    config: ml_collections.ConfigDict, task: HierarchicalTask, outcome: Outcome
) -> Outcome:
    """Trains a search's winner once more, and looks at both signals in between."""
    plan = make_plan(config)._replace(eval_every=config.watch_every, rungs=())
    winner = {
        name: np.array([outcome.metrics[name]], np.float32)
        for name in ("learning_rate", "weight_decay")
    }
    rows = watch(config, task, make_search(config, plan), winner)
    learned = {
        f"{name}_epoch": next((r["epoch"] for r in rows if r[f"{name}_error"] <= 1 / 2), None)
        for name in ("base", "composite")
    }
    last = {name: value for name, value in rows[-1].items() if name != "epoch"}
    return outcome._replace(metrics=outcome.metrics | learned | last, history=rows)


def _run_searches(
    group: list[Point], directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    config = group[0].config
    search, grid = make_search(config, make_plan(config)), candidates(config)
    outcomes = []
    for done, point in enumerate(group):
        task = make_task(point.config)
        start, train, test = make_training(point.config, task)
        found = search.run(
            order_key(point.config),
            start,
            train,
            test,
            grid,
            checkpoint_dir=directory / SCRATCH / f"seed_{point.config.seed}",
            progress=lambda part: progress((done + part) / len(group)),  # noqa: B023
            # Features and kernels of the other learners stay as they are.
            measuring=Measuring(config.measures, config.measured_examples)
            if config.learner in NETWORK_LEARNERS
            else NOTHING,
        )
        outcome = _outcome(point.config, found, grid)
        if config.question == "epochs" and outcome.status == "ok":
            outcome = _watched(point.config, task, outcome)
        outcomes.append(with_course(outcome, found.measured, found.cost))
    return outcomes


def run(
    group: list[Point], data: None, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Searches for every seed of a group, or solves its kernel."""
    del data
    if group[0].config.learner in SEARCHED:
        outcomes = _run_searches(group, directory, progress)
    else:
        outcomes = [run_exact(point.config) for point in group]
    return with_settings(group, outcomes, _settings_of)


def _settings_of(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns what a point is, also where it was not swept."""
    names = ["net", "learner", "d", "base_degree", "composite_degree", "alpha", "beta", "num_train"]
    has_width = config.learner not in INPUT_LEARNERS and not config.learner.endswith("infinite")
    settings = {name: config[name] for name in (*names, *(["width"] if has_width else []), "seed")}
    return settings | {"outputs": num_outputs(config)}


EXPERIMENT = Experiment(load=no_data, groups=groups, run=run, report=make_report)
