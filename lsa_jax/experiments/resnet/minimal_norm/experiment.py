"""SGD does not find the network of small norm that can be made by hand.

Allen-Zhu and Li (2019), section 8.2, figures 1 and 4: y = d^3 x_1 ... x_6 for x uniform on
{-1/sqrt(d), 1/sqrt(d)}^d, and F(W; x) = a^T s(W x), of which W alone is trained.
"""

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array, Float, Key

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.resnet.minimal_norm.construction import (
    enlarge,
    exact_error,
    fit_small,
    network,
    product_of_six,
)
from lsa_jax.experiments.resnet.minimal_norm.report import make_report
from lsa_jax.experiments.resnet.momentum import momentum_search
from lsa_jax.experiments.resnet.search import (
    Plan,
    Rung,
    Search,
    SearchResult,
)
from lsa_jax.experiments.resnet.signals import sample_cube
from lsa_jax.experiments.resnet.streams import MinimalNorm
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.sweep.experiment import (
    SCRATCH,
    Experiment,
    Outcome,
    no_data,
    with_course,
    with_settings,
)
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import Measuring


def groups(points: list[Point]) -> list[list[Point]]:
    """Puts all networks made by hand together; every search is a group of its own."""
    hands = [point for point in points if point.config.part == "construction"]
    searches = [[point] for point in points if point.config.part == "search"]
    return ([hands] if hands else []) + searches


def _stream(config: ml_collections.ConfigDict, place: int) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.key(config.seed), place)


def draw_examples(key: Key[Array, ""], num_examples: int, d: int) -> Dataset:
    """Draws x uniform on {-1/sqrt(d), 1/sqrt(d)}^d and its label."""
    inputs = sample_cube(key, num_examples, d) / d**0.5
    return Dataset(inputs, product_of_six(inputs))


def relative_norm(w: Float[np.ndarray, "d m"]) -> float:
    """Returns |W|_F / sqrt(d)."""
    return float(np.linalg.norm(w.astype(float)) / w.shape[0] ** 0.5)


def _construct(group: list[Point]) -> list[Outcome]:
    """Fits one small network a penalty, as replicas, and enlarges it to each point's width."""
    config = group[0].config
    penalties = sorted({point.config.penalty for point in group})
    layout = ReplicaLayout(len(penalties))
    fit = functools.partial(
        fit_small, width=config.small_width, steps=config.steps, rate=config.rate
    )
    program = layout.map(lambda penalty, key: fit(key, penalty), 1)
    spread = layout.spread(jnp.array(penalties))
    key = layout.share(_stream(config, MinimalNorm.HAND))
    small = dict(zip(penalties, layout.gather(program(spread, key)), strict=True))
    outcomes = []
    for point in group:
        w = enlarge(small[point.config.penalty], config.d, point.config.width)
        metrics = {"relative_norm": relative_norm(w), "test_error": exact_error(w)}
        if np.isfinite(list(metrics.values())).all():
            outcomes.append(Outcome(metrics, []))
        else:
            outcomes.append(Outcome({}, [], "failed", "the fit is not finite; lower config.rate"))
    return outcomes


def make_search(config: ml_collections.ConfigDict) -> Search:
    """Returns the search of a width."""
    grid_size = len(config.search.learning_rates) * len(config.search.weight_decays)
    plan = Plan(
        epochs=config.epochs,
        batch_size=config.batch_size,
        eval_every=config.eval_every,
        rungs=(Rung(config.search.check_epoch, grid_size),),
        hopeless=config.search.hopeless,
    )
    return momentum_search(network, plan, config)


def _rows(found: SearchResult, grid: np.ndarray, epochs: int) -> list[dict[str, Any]]:
    """Returns one row a candidate that reached the end."""
    rows = []
    for candidate in np.flatnonzero(found.trained == epochs):
        errors = (e[-1, candidate].item() for e in (found.train_error, found.test_error))
        names = ("learning_rate", "weight_decay", "train_error", "test_error", "relative_norm")
        rates = (float(f"{rate:.6g}") for rate in grid[candidate])
        norm = relative_norm(found.params["w"][candidate])
        rows.append(dict(zip(names, (*rates, *errors, norm), strict=True)))
    return [row for row in rows if np.isfinite(list(row.values())).all()]


def _search(
    config: ml_collections.ConfigDict, directory: Path, progress: Callable[[float], None]
) -> Outcome:
    """Trains every learning rate and weight decay, and measures errors and norm of each."""
    rates, decays = config.search.learning_rates, config.search.weight_decays
    grid = np.array(list(itertools.product(rates, decays)), np.float32)
    shape = (config.d, config.width)
    found = make_search(config).run(
        _stream(config, MinimalNorm.ORDER),
        {"w": config.init_std * jax.random.normal(_stream(config, MinimalNorm.INIT), shape)},
        draw_examples(_stream(config, MinimalNorm.TRAIN), config.num_train, config.d),
        draw_examples(_stream(config, MinimalNorm.TEST), config.num_test, config.d),
        {"learning_rate": grid[:, 0], "weight_decay": grid[:, 1]},
        checkpoint_dir=directory / SCRATCH,
        progress=progress,
        measuring=Measuring(config.measures, config.measured_examples),
    )
    rows = _rows(found, grid, config.epochs)
    if not rows:
        message = f"all {len(grid)} candidates diverged; lower config.search.learning_rates"
        return Outcome({}, [], "failed", message)
    best = min(rows, key=lambda row: row["test_error"])
    metrics = {**best, "candidates": len(grid), "candidates_finished": len(rows)}
    return with_course(Outcome(metrics, rows), found.measured, found.cost)


def run(
    group: list[Point], data: None, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Makes the networks of a group by hand, or searches for one width."""
    del data
    if group[0].config.part == "construction":
        outcomes = _construct(group)
    else:
        outcomes = [_search(group[0].config, directory, progress)]
    return with_settings(group, outcomes, _settings_of)


def _settings_of(config: ml_collections.ConfigDict) -> dict[str, Any]:
    return {name: config[name] for name in ("part", "d", "num_train", "width")}


EXPERIMENT = Experiment(
    load=no_data,
    groups=groups,
    run=run,
    report=make_report,
    on_host=lambda config: config.part == "construction",
)
