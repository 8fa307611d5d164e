"""SGD does not find the network of small norm that can be made by hand.

Allen-Zhu and Li (2019), section 8.2, figures 1 and 4: y = d^3 x_1 ... x_6 for x uniform on
{-1/sqrt(d), 1/sqrt(d)}^d, and F(W; x) = a^T s(W x), of which W alone is trained.
"""

import functools
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
from lsa_jax.experiments.resnet.search import Grid, Plan, Rung, Search, SearchResult, make_grid
from lsa_jax.experiments.resnet.signals import sample_cube
from lsa_jax.experiments.resnet.streams import MinimalNorm
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.reporting import outcomes
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, with_course, with_test
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import Measuring


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
    found = []
    for point in group:
        w = enlarge(small[point.config.penalty], config.d, point.config.width)
        metrics = {"relative_norm": relative_norm(w), "test_error": exact_error(w)}
        if np.isfinite(list(metrics.values())).all():
            found.append(Outcome(metrics, []))
        else:
            found.append(Outcome({}, [], "failed", "the fit is not finite; lower config.rate"))
    return found


def make_search(config: ml_collections.ConfigDict) -> Search:
    """Returns the search of a width: its one rung drops only candidates that diverged."""
    size = len(config.search.learning_rates) * len(config.search.weight_decays)
    rung = Rung(config.search.check_epoch, size)
    return Search(network, Plan.of(config, (rung,), config.search.hopeless))


def _rows(found: SearchResult, grid: Grid, epochs: int) -> dict[int, dict[str, Any]]:
    """Returns one row for each candidate that reached the end with finite numbers."""
    rows = {}
    for candidate in np.flatnonzero(found.trained == epochs).tolist():
        row = {name: values[candidate].item() for name, values in grid.items()}
        row["train_error"] = found.train_error[-1, candidate].item()
        row["test_error"] = found.test_error[-1, candidate].item()
        row["relative_norm"] = relative_norm(found.params["w"][candidate])
        if np.isfinite(list(row.values())).all():
            rows[candidate] = row
    return rows


def _search(
    config: ml_collections.ConfigDict, directory: Path, progress: Callable[[float], None]
) -> Outcome:
    """Trains every learning rate and weight decay, and measures errors and norm of each."""
    search, shape = make_search(config), (config.d, config.width)
    grid = make_grid(config.search.learning_rates, config.search.weight_decays)
    test = draw_examples(_stream(config, MinimalNorm.TEST), config.num_test, config.d)
    found = search.run(
        _stream(config, MinimalNorm.ORDER),
        {"w": config.init_std * jax.random.normal(_stream(config, MinimalNorm.INIT), shape)},
        draw_examples(_stream(config, MinimalNorm.TRAIN), config.num_train, config.d),
        test,
        grid,
        checkpoint_dir=directory / SCRATCH,
        progress=progress,
        measuring=Measuring(config.measures, config.measured_examples),
    )
    rows, count = _rows(found, grid, config.epochs), len(found.trained)
    if not rows:
        message = f"all {count} candidates diverged; lower config.search.learning_rates"
        return Outcome({}, [], "failed", message)
    best = min(rows, key=lambda candidate: rows[candidate]["test_error"])
    metrics = {**rows[best], "candidates": count, "candidates_finished": len(rows)}
    squares = np.asarray(search.distances(found, best, test))
    kept = outcomes.of_errors(squares, np.asarray(test.targets))
    (outcome,) = with_test([Outcome(metrics, [*rows.values()], outcomes=kept)], test)
    return with_course(outcome, found.measured, found.cost)


def run(
    group: list[Point], data: None, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Makes the networks of a group by hand, or searches for one width."""
    del data
    if group[0].config.part == "construction":
        return _construct(group)
    return [_search(group[0].config, directory, progress)]


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    # All networks made by hand are one group; each search runs alone.
    varying=lambda config: tuple(config) if config.part == "construction" else (),
    columns=lambda config: {name: config[name] for name in ("part", "d", "num_train", "width")},
    on_host=lambda config: config.part == "construction",
)
