"""Representation by fixed filters: the finite CNTK's least error, and a trained filter's.

Karp et al. (NeurIPS 2021), section 5, theorem 2: with sigma^2 = 1 / d and few filters, no weights
and no thresholds of the kernel in `thresholds` come below an error of 0.1, while Algorithm 1
trains one filter to classify the same distribution; and section 3's linear classifier.

Kernel: thresholds from a search on the population, weights from its discriminant or from logistic
regression, whichever errs least on validation examples; the error is that on fresh examples. Each
draw of the filters and each seed has test examples of its own.
"""

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd
import scipy
import scipy.linalg
import scipy.optimize
from jaxtyping import Float
from scipy.special import expit, ndtr

from lsa_jax.experiments.lsa.kernel_bound import thresholds
from lsa_jax.experiments.lsa.kernel_bound.settings import SETTINGS, row_length
from lsa_jax.experiments.lsa.signal_dynamics import experiment
from lsa_jax.experiments.lsa.signal_dynamics.settings import SETTINGS as SIGNAL_SETTINGS
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting.claims import Claim, Condition, shown
from lsa_jax.reporting.courses import EXAMPLES, is_measure
from lsa_jax.reporting.curves import PALETTE, draw_series, subplots
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, Statistic, binomial_error, share_ends
from lsa_jax.reporting.statistics import computed, holds
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress, with_test
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


def choose_designs(group: list[Point]) -> list[thresholds.Design]:
    """Draws filters for a group's kernels, and searches thresholds, smallest kernel first."""
    config, sizes = group[0].config, [point.config.m for point in group]
    key = jax.random.fold_in(jax.random.key(config.seed), KernelBound.FILTERS)
    directions = thresholds.draw_directions(key, max(sizes), row_length(config))
    designs: dict[int, thresholds.Design] = {}
    known = None
    for m in sorted(set(sizes)):
        designs[m] = thresholds.search_thresholds(
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


def fit_kernel(
    config: Config, design: thresholds.Design, features: dict[int, np.ndarray]
) -> Outcome:
    """Fits a kernel's weights at given thresholds and measures them.

    `features` are y F(X) of training, validation and test examples, by stream.
    """
    sigma, k = noise_sigma(config), config.k
    start = thresholds.discriminant(design, sigma, k)
    covariance = k * sigma**2 * thresholds.row_covariance(design, design)
    # Filters that let the same rows pass make it singular.
    covariance[np.diag_indices_from(covariance)] *= 1 + 1e-6
    fits = fit_logistic(features[KernelBound.TRAIN], start, covariance, config.penalties)
    weights = np.stack([start, *fits])
    # An output of 0 is an error.
    wrong = {stream: rows @ weights.T <= 0 for stream, rows in features.items()}
    table = pd.DataFrame({"penalty": [np.inf, *config.penalties]})
    for stream, name in _SAMPLES.items():
        table[f"{name}_error"] = wrong[stream].mean(axis=0)
    chosen, errors = int(table["validation_error"].argmin()), table["test_error"]
    metrics = {
        "test_error": float(errors[chosen]),
        "least_test_error": float(errors.min()),
        "discriminant_error": float(errors[0]),
        "predicted_error": float(ndtr(-thresholds.separation(design, sigma, k))),
    }
    right = Outcomes(~wrong[KernelBound.TEST][:, chosen])
    return Outcome(metrics, table.to_dict("records"), outcomes=right)


# Samples that kernels of one seed share, by stream.
_SAMPLES = {
    KernelBound.TRAIN: "train",
    KernelBound.VALIDATION: "validation",
    KernelBound.TEST: "test",
}


def _run_kernels(group: list[Point], progress: Progress) -> list[Outcome]:
    config, designs = group[0].config, choose_designs(group)
    progress(0.3)
    drawn: dict[int, list[np.ndarray]] = {}
    for done, (stream, name) in enumerate(_SAMPLES.items(), start=1):
        key = jax.random.fold_in(jax.random.key(config.seed), stream)
        sizes = {"k": config.k, "num_examples": config[f"num_{name}"]}
        drawn[stream] = thresholds.draw_features(key, designs, noise_sigma(config), **sizes)
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
    outcomes = []
    for found in experiment.run([network_point(p) for p in group], None, directory, progress):
        if found.status == "ok":
            kept = {n: v for n, v in found.metrics.items() if n in _KEPT or is_measure(n)}
            error = {"test_error": 1 - found.metrics["test_accuracy"]}
            found = found._replace(metrics=error | kept)
        outcomes.append(found)
    return outcomes


def linear_error(config: Config) -> float:
    """Returns the share of fresh examples on which y sum_i <w*, X_i> is not above 0.

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
    learner = group[0].config.learner
    if learner == "network":
        return _run_networks(group, directory, progress)
    if learner == "linear":
        return [Outcome({"test_error": linear_error(point.config)}, []) for point in group]
    return _run_kernels(group, progress)


# --- claims and report ----------------------------------------------------------------------------

# Theorem 2's bound on a kernel's error, how probable that is over draws of the filters, and the
# error that counts as next to zero.
BOUND, PROBABILITY, NEXT_TO_ZERO = 0.1, 0.999, 0.01
# Section 3: the least error of sum_i <w*, X_i>, with sigma = log(k) / sqrt(k).
LINEAR = 0.49
# Theorem 2 is about a number of filters that stays fixed as k grows; claims are made up to here.
FEW_FILTERS = 4


def make_claims(k: int, filters: Iterable[int], *, is_largest: bool) -> list[Claim]:
    """Returns the claims at one k, for kernels of these numbers of filters.

    Theorem 2 is about k from some unknown size on, so the share of draws that err is tested only
    where k `is_largest` in the sweep; at smaller k, which may be too small for it, it is measured.
    """
    network = Claim(
        f"the network's test error, k = {k}",
        _next_to_zero(k),
        paper=f"goes to 0: below {NEXT_TO_ZERO:g} for every seed",
        every=True,
        primary=True,
    )
    tested = {
        "above": np.nextafter(PROBABILITY, 0),
        "conditions": (shown(network, "the network learns"), _search_works(k)),
    }
    shares = [
        Claim(
            f"share of draws of the kernel that err on {BOUND:g} or more, k = {k}, m = {m}",
            _share({"learner": "kernel", "k": k, "m": m}),
            paper=f"{PROBABILITY:g} or more, for large k",
            primary=is_largest and m == FEW_FILTERS,
            **(tested if is_largest else {}),
        )
        for m in sorted(m for m in filters if m <= FEW_FILTERS)
    ]

    def of_linear(rows: pd.DataFrame) -> pd.Series:  # exactly: signal 1 and noise of variance k / d
        return pd.Series(scipy.stats.norm.sf((rows["d"].iloc[:1] / k) ** 0.5))

    linear = Claim(
        f"error of the linear classifier sum_i <w*, X_i>, k = {k}",
        computed(of_linear, "test_error", exact=True, learner="linear", k=k),
        paper=f"{LINEAR:g} or more",
        above=LINEAR,
    )
    return [*shares, network, linear]


def _reach(rows: pd.DataFrame, tail: float) -> pd.Series:
    """Returns how far each run's error may be off, by its test examples."""
    pairs = zip(rows["test_error"], rows["num_test"], strict=True)
    errors = [binomial_error(error, count) for error, count in pairs]
    return pd.Series(errors, rows.index, dtype=float) * scipy.stats.norm.isf(tail)


def _next_to_zero(k: int) -> Statistic:
    """Returns the statistic of whether each seed's network errs on next to nothing."""

    def holds(rows: pd.DataFrame) -> pd.Series:
        errors, reach = rows["test_error"], _reach(rows, TAIL)
        sure = (errors + reach < NEXT_TO_ZERO).astype(float)
        return sure.mask((errors - reach < NEXT_TO_ZERO) & (sure == 0))

    own = {"learner": "network", "k": k}
    found = computed(holds, "test_error", examples="num_test", **own)

    def statistic(runs: Runs) -> Sample:
        sample, errors = found(runs), runs.where(**own).finished["test_error"]
        # Errors of 0 in all seeds are equal by themselves.
        return sample._replace(equal=sample.equal and bool(errors.any()))

    return statistic


def _share(own: dict[str, object]) -> Statistic:
    """Returns the statistic of the share of draws that err on the bound or more.

    Its interval begins at the lower end of the exact one over draws whose test examples are sure
    of it, and ends at the upper end of the one over draws for which it is possible: for all draws
    at once (Bonferroni), as one exception among few draws refutes the theorem.
    """
    share = holds("test_error", lambda error: error >= BOUND, examples="num_test", **own)

    def statistic(runs: Runs) -> Sample:
        rows = runs.where(**own).finished
        errors, draws = rows["test_error"], len(rows)

        def ends(tail: float) -> tuple[float, float]:
            reach = _reach(rows, tail / draws)
            sure, possible = (int((errors + way * reach >= BOUND).sum()) for way in (-1, 1))
            return share_ends(sure, draws, tail)[0], share_ends(possible, draws, tail)[1]

        return share(runs)._replace(ends=ends)

    return statistic


def _search_works(k: int) -> Condition:
    """Returns the condition that the search succeeds: more filters get below the bound."""

    def unmet(runs: Runs) -> str:
        rows = runs.where(learner="kernel", k=k).finished
        below = rows["test_error"] + _reach(rows, TAIL) < BOUND
        return "" if below.any() else "none does"

    return Condition(f"a kernel of more filters errs on less than {BOUND:g}", unmet)


_COLUMNS = {
    "test_error": "test error",
    "above": f"share of {BOUND:g} or more",
    "least_test_error": "least test error of all fits",
    "discriminant_error": "discriminant's test error",
    "predicted_error": "predicted error",
}

_NOTE = (
    "Means over draws of the filters ± their standard deviation. A kernel's test error is the one "
    "of the fit that errs least on validation examples, on fresh examples; the theorem is about "
    "all weights and thresholds, and these are the best that the search found. The least test "
    "error of all fits is chosen on the test examples themselves, so it is optimistic. The "
    "predicted error is the discriminant's, were its output normal. The linear classifier adds up "
    "noise of standard deviation log(k), so it errs with the normal probability of -1 / log(k): "
    "section 3's 0.49 takes a k of e^39.9 or more."
)


def _draw(rows: pd.DataFrame) -> Any:
    """Draws test error against m, one line a k; bands are ± 1 std; the network is dashed."""
    figure, ((axis,),) = subplots(1, 1, 5.5, 3.8)
    named = rows.assign(k="k = " + rows["k"].astype(str))
    kernels = named[named["learner"] == "kernel"]
    style = {"limits": (0, 1), "marker": "o", "markersize": 4}
    draw_series(axis, kernels, "m", "test_error", "k", **style)
    errors = named[named["learner"] == "network"].groupby("k", sort=False)["test_error"].mean()
    for (k, error), color in zip(errors.items(), PALETTE, strict=False):
        axis.axhline(error, color=color, linestyle="--", label=f"network, {k}")
    axis.axhline(BOUND, color="grey", linestyle=":", label="bound of theorem 2")
    axis.set_xscale("log", base=2)
    axis.set(xlabel="filters of the kernel, m", ylabel="test error", ylim=(-0.01, 0.5))
    axis.legend(frameon=False, fontsize="small")
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the table, the claims and the figure of a sweep."""
    rows = runs.finished.assign(above=1.0 * (runs.finished["test_error"] >= BOUND))
    points = [point for point in SETTINGS.sweep(config) if point["learner"] == "kernel"]
    return Report(
        tables=[("Test error", table_of_means(rows, ["k", "learner", "m"], _COLUMNS))],
        # Kernels with too many features are no points.
        claims=[
            claim
            for k in config.sweep.k
            for claim in make_claims(
                k,
                {point["m"] for point in points if point["k"] == k},
                is_largest=k == max(config.sweep.k),
            )
        ],
        runs=runs.assign(num_test=config.num_test),
        figures={"kernel_bound": functools.partial(_draw, rows)},
        notes=[_NOTE],
    )


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    report_version=3,
    # Kernels of one seed that differ in m only share filters and examples: a kernel's filters are
    # the first ones of the next.
    varying=lambda config: ("m",) if config.learner == "kernel" else ("seed",),
    columns=lambda config: (
        {"learner": config.learner, "d": row_length(config)}
        | {name: config[name] for name in ("k", "m", "seed")}
    ),
    on_host=lambda config: config.learner != "network",
)
