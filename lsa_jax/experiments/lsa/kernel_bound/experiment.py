"""Representation by fixed filters: the finite CNTK's least error, and a trained filter's.

Karp et al. (NeurIPS 2021), section 5, theorem 2: with sigma^2 = 1 / d and few filters, no weights
and no thresholds of the kernel in `thresholds` come below an error of 0.1, while Algorithm 1
trains one filter to classify the same distribution.

Kernel: thresholds from a search on the population, weights from its discriminant or from logistic
regression, whichever errs least on validation examples; the error is that on fresh examples.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Float
from scipy.special import expit, ndtr

from lsa_jax.experiments.lsa.kernel_bound.report import make_report
from lsa_jax.experiments.lsa.kernel_bound.settings import row_length
from lsa_jax.experiments.lsa.kernel_bound.thresholds import (
    Design,
    discriminant,
    draw_directions,
    draw_features,
    row_covariance,
    search_thresholds,
    separation,
)
from lsa_jax.experiments.lsa.signal_dynamics import experiment
from lsa_jax.experiments.lsa.signal_dynamics.settings import SETTINGS as SIGNAL_SETTINGS
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting.courses import EXAMPLES, is_measure
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields


class KernelBound:
    """Random streams of a seed's key."""

    FILTERS, TRAIN, VALIDATION, TEST, LINEAR = range(5)


# Results of training one filter that are kept, with its measures.
_KEPT = ("w_dot_wstar", "ratio", EXAMPLES)

# Entries of noise that are drawn at a time.
_DRAWN = 10_000_000


def noise_sigma(config: Config) -> float:
    """Returns sigma = 1 / sqrt(d), as theorem 2 has it."""
    return row_length(config) ** -0.5


def choose_designs(group: list[Point]) -> list[Design]:
    """Draws filters for a group's kernels, and searches thresholds, smallest kernel first."""
    config, sizes = group[0].config, [point.config.m for point in group]
    key = jax.random.fold_in(jax.random.key(config.seed), KernelBound.FILTERS)
    directions = draw_directions(key, max(sizes), row_length(config))
    designs: dict[int, Design] = {}
    known = None
    for m in sorted(set(sizes)):
        designs[m] = search_thresholds(
            directions[:m, : m + 1],  # in the coordinates that they and w* span
            noise_sigma(config),
            config.k,
            config.pass_fractions,
            sweeps=config.search_sweeps if m <= config.search_filters else 0,
            starts=config.search_starts,
            known=known,
        )
        known = designs[m].thresholds
    return [designs[m] for m in sizes]


def fit_logistic(
    features: Float[np.ndarray, "n f"],
    start: Float[np.ndarray, " f"],
    covariance: Float[np.ndarray, "f f"],
    penalties: Sequence[float],
) -> Float[np.ndarray, "penalties f"]:
    """Fits logistic regressions through the origin, pulled towards given weights.

    Each minimises mean log(1 + exp(-<w, F>)) + penalty / 2 (w - start)^T C (w - start), with
    features F = y F(X), so that every label is 1, and C positive definite. The fits are done in
    features that C turns into white ones, where they are well conditioned.
    """
    factor = scipy.linalg.cholesky(covariance, lower=True)
    white = scipy.linalg.solve_triangular(factor, features.T, lower=True).T
    center = factor.T @ start

    def loss_and_slope(weights: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
        margins, away = white @ weights, weights - center
        loss = np.logaddexp(0, -margins).mean() + penalty / 2 * (away @ away)
        return loss, penalty * away - white.T @ expit(-margins) / len(white)

    found = [
        scipy.optimize.minimize(loss_and_slope, center, (p,), jac=True, method="L-BFGS-B").x
        for p in penalties
    ]
    return scipy.linalg.solve_triangular(factor.T, np.transpose(found), lower=False).T


def fit_kernel(config: Config, design: Design, features: dict[int, np.ndarray]) -> Outcome:
    """Fits a kernel's weights at given thresholds and measures them.

    `features` are y F(X) of training, validation and test examples, by stream.
    """
    sigma, k = noise_sigma(config), config.k
    start = discriminant(design, sigma, k)
    covariance = k * sigma**2 * row_covariance(design, design)
    # Filters that let the same rows pass make it singular.
    covariance[np.diag_indices_from(covariance)] *= 1 + 1e-6
    fits = fit_logistic(features[KernelBound.TRAIN], start, covariance, config.penalties)
    weights = np.stack([start, *fits])
    # An output of 0 is an error.
    wrong = {stream: rows @ weights.T <= 0 for stream, rows in features.items()}
    columns = {
        "penalty": [np.inf, *config.penalties],
        "train_error": wrong[KernelBound.TRAIN].mean(axis=0),
        "validation_error": wrong[KernelBound.VALIDATION].mean(axis=0),
        "test_error": wrong[KernelBound.TEST].mean(axis=0),
    }
    chosen, errors = int(np.argmin(columns["validation_error"])), columns["test_error"]
    metrics = {
        "test_error": float(errors[chosen]),
        "least_test_error": float(errors.min()),
        "discriminant_error": float(errors[0]),
        "predicted_error": float(ndtr(-separation(design, sigma, k))),
    }
    history = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Outcome(metrics, history, outcomes=Outcomes(~wrong[KernelBound.TEST][:, chosen]))


# Sizes of the samples that kernels of one seed share, by stream.
_SIZES = {
    KernelBound.TRAIN: "num_train",
    KernelBound.VALIDATION: "num_validation",
    KernelBound.TEST: "num_test",
}


def _run_kernels(group: list[Point], progress: Progress) -> list[Outcome]:
    config, designs = group[0].config, choose_designs(group)
    progress(0.3)
    drawn: dict[int, list[np.ndarray]] = {}
    for done, (stream, size) in enumerate(_SIZES.items(), start=1):
        key = jax.random.fold_in(jax.random.key(config.seed), stream)
        sizes = {"k": config.k, "num_examples": config[size]}
        drawn[stream] = draw_features(key, designs, noise_sigma(config), **sizes)
        progress(0.3 + 0.2 * done)
    outcomes = [
        fit_kernel(point.config, design, {s: arrays[place] for s, arrays in drawn.items()})
        for place, (point, design) in enumerate(zip(group, designs, strict=True))
    ]
    return with_test(outcomes, drawn[KernelBound.TEST])


def network_point(point: Point) -> Point:
    """Returns the point of `lsa.signal_dynamics` that trains the network of a point."""
    config = point.config
    fields = {
        "seed": config.seed,
        "k": config.k,
        "d": row_length(config),
        "noise_scale": noise_sigma(config) / noise_std(config.k, 1.0),
        "num_test": config.num_test,
        "measures": config.measures,
        "measured_examples": config.measured_examples,
        **config.network.to_dict(),
    }
    settings = set_fields(SIGNAL_SETTINGS.default_config(), fields)
    SIGNAL_SETTINGS.validate(settings)
    return Point(point.id, point.settings, settings)


def _run_networks(group: list[Point], directory: Path, progress: Progress) -> list[Outcome]:
    trained = experiment.run([network_point(p) for p in group], None, directory, progress)
    return [
        outcome if outcome.status == "failed" else outcome._replace(metrics=_of_network(outcome))
        for outcome in trained
    ]


def _of_network(outcome: Outcome) -> dict[str, Any]:
    """Returns the results of a trained network that are kept here."""
    found = outcome.metrics
    kept = {n: v for n, v in found.items() if n in _KEPT or is_measure(n)}
    return {"test_error": 1 - found["test_accuracy"]} | kept


def linear_error(config: Config) -> float:
    """Returns the share of fresh examples on which y sum_i <w*, X_i> is not above 0.

    Every row is drawn, through its product with w*.

    Source: Karp et al. (2021), section 3: the naive classifier.
    """
    key = jax.random.fold_in(jax.random.key(config.seed), KernelBound.LINEAR)
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    pieces = np.array_split(np.arange(config.num_test), -(-config.num_test * config.k // _DRAWN))
    wrong = 0
    for piece in pieces:
        noise = generator.standard_normal((len(piece), config.k), np.float32)
        wrong += int(np.sum(1 + noise_sigma(config) * noise.sum(axis=1, dtype=np.float64) <= 0))
    return wrong / config.num_test


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains a group's networks as replicas, fits the kernels of one seed, or just measures."""
    del data
    learner = group[0].config.learner
    if learner == "network":
        return _run_networks(group, directory, progress)
    if learner == "linear":
        return [Outcome({"test_error": linear_error(point.config)}, []) for point in group]
    return _run_kernels(group, progress)


def _columns(config: Config) -> dict[str, Any]:
    own = {name: config[name] for name in ("k", "m", "seed")}
    return {"learner": config.learner, "d": row_length(config)} | own


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    report_version=2,
    # Kernels of one seed that differ in m only share filters and examples: a kernel's filters are
    # the first ones of the next.
    varying=lambda config: ("m",) if config.learner == "kernel" else ("seed",),
    columns=_columns,
    on_host=lambda config: config.learner != "network",
)
