"""SGD does not find the network of small norm that can be made by hand.

Allen-Zhu and Li (2019), section 8.2, figures 1 and 4: y = d^3 x_1 ... x_6 for x uniform on
{-1/sqrt(d), 1/sqrt(d)}^d, and F(W; x) = a^T s(W x) with s the ReLU and a_j = +-1/sqrt(m), the first
half +, of which W alone is trained. By hand, it is fitted on 6 inputs and 64 examples; zero columns
and duplicated neurons make it one of any d and any larger m.
"""

import functools
import itertools
import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from jax import lax
from jaxtyping import Array, Float, Key

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.resnet.minimal_norm.claims import HAND_MADE, make_claims
from lsa_jax.experiments.resnet.minimal_norm.settings import DEGREE
from lsa_jax.experiments.resnet.search import Plan, Search, make_grid
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.curves import PALETTE, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, Progress, with_course, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import Measuring

# Streams of a seed's key.
_TRAIN, _TEST, _INIT, _ORDER, _HAND = range(5)


def network(
    params: dict[str, Array | np.ndarray], inputs: Float[Array | np.ndarray, "n d"]
) -> Float[Array, "n 1"]:
    """Returns F(W; x); params["w"] is the transpose of W, [d, m].

    Readout weights are 1/sqrt(m), from the second half on -1/sqrt(m).
    """
    w, m = params["w"], params["w"].shape[1]
    signs = jnp.repeat(jnp.array([1.0, -1.0]), m // 2) / math.sqrt(m)
    return (jax.nn.relu(inputs @ w) @ signs)[:, None]


def product_of_six(inputs: Float[Array | np.ndarray, "n d"]) -> Float[Array, "n 1"]:
    """Returns y = d^3 x_1 ... x_6, a sign, for entries of x of size 1 / sqrt(d)."""
    return jnp.prod(jnp.sign(inputs[:, :DEGREE]), axis=1)[:, None]


def all_inputs() -> Float[np.ndarray, "64 6"]:
    """Returns every x in {-1/sqrt(6), 1/sqrt(6)}^6 once."""
    signs = list(itertools.product((-1.0, 1.0), repeat=DEGREE))
    return np.array(signs, np.float32) / math.sqrt(DEGREE)


def fit_small(
    key: Key[Array, ""], penalty: Float[Array, ""], *, width: int, steps: int, rate: float
) -> Float[Array, "6 m"]:
    """Fits the network of 6 inputs: least mean squared error + penalty |W|_F^2 / 6.

    Adam on all 64 inputs, its rate falling to 0 as a cosine, from W ~ N(0, 1).

    Source: Allen-Zhu and Li (2019), section 8.2, footnote 16: fitted numerically; how, is ours.
    """
    x = jnp.asarray(all_inputs())
    y = product_of_six(x)
    rule = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def loss(params: dict[str, Array]) -> Array:
        error = jnp.mean((network(params, x) - y) ** 2)
        return error + penalty * jnp.sum(params["w"] ** 2) / DEGREE

    def step(state: Any, _: None) -> tuple[Any, None]:
        params, opt_state = state
        updates, opt_state = rule.update(jax.grad(loss)(params), opt_state)
        return (optax.apply_updates(params, updates), opt_state), None

    params = {"w": jax.random.normal(key, (DEGREE, width))}
    return lax.scan(step, (params, rule.init(params)), None, length=steps)[0][0]["w"]


def enlarge(small: Float[np.ndarray, "6 m"], d: int, width: int) -> Float[np.ndarray, "d M"]:
    """Returns the network of d inputs and M neurons with the same function as a small one.

    Weights grow by sqrt(d / 6), as inputs shrink; other inputs get weight 0. Of a neuron's c copies
    each has its weights times sqrt(M / m) / c. Copies are dealt out evenly within each half; where
    all have as many, |W|_F grows by sqrt(d / 6) alone.

    Source: Allen-Zhu and Li (2019), section 8.2, footnote 16.
    """
    old = small.shape[1]
    large = np.zeros((d, width), small.dtype)
    for half in range(2):
        first, place = half * (old // 2), half * (width // 2)
        origin = first + np.arange(width // 2) % (old // 2)
        copies = np.bincount(origin, minlength=old)[origin]
        scaled = small[:, origin] * (math.sqrt(width / old) / copies)
        large[:DEGREE, place : place + width // 2] = scaled * math.sqrt(d / DEGREE)
    return large


def exact_error(w: Float[np.ndarray, "d m"]) -> float:
    """Returns the mean of (F - y)^2 over all inputs of a network that `enlarge` returned.

    Weights of all but 6 inputs are 0, so that the 64 signs of these are all inputs that differ.
    """
    inputs = all_inputs() * math.sqrt(DEGREE / w.shape[0])
    outputs = network({"w": w[:DEGREE]}, inputs)
    return float(np.mean((np.asarray(outputs, float) - product_of_six(inputs)) ** 2))


def _stream(config: Config, place: int) -> Key[Array, ""]:
    return jax.random.fold_in(jax.random.key(config.seed), place)


def draw_examples(key: Key[Array, ""], num_examples: int, d: int) -> Dataset:
    """Draws x uniform on {-1/sqrt(d), 1/sqrt(d)}^d and its label."""
    inputs = jax.random.rademacher(key, (num_examples, d), jnp.float32) / d**0.5
    return Dataset(inputs, product_of_six(inputs))


def relative_norm(w: Float[np.ndarray, "d m"]) -> float:
    """Returns |W|_F / sqrt(d)."""
    return float(np.linalg.norm(w.astype(float)) / w.shape[0] ** 0.5)


def _construct(group: list[Point]) -> list[Outcome]:
    """Fits a small network for each penalty, and enlarges it to each point's width."""
    config = group[0].config
    penalties = sorted({point.config.penalty for point in group})
    layout = ReplicaLayout(len(penalties))
    fit = functools.partial(
        fit_small, width=config.small_width, steps=config.steps, rate=config.rate
    )
    program = layout.map(lambda penalty, key: fit(key, penalty), 1)
    spread = layout.spread(jnp.array(penalties))
    key = layout.share(_stream(config, _HAND))
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


def make_search(config: Config) -> Search:
    """Returns the search of a width: its one rung drops only candidates that diverged."""
    size = len(config.search.learning_rates) * len(config.search.weight_decays)
    rungs = {config.search.check_epoch: size}
    return Search(network, Plan.of(config, rungs, config.search.hopeless))


def _search(config: Config, directory: Path, progress: Progress) -> Outcome:
    """Trains all rates and decays; a row for each that reached the end with finite numbers."""
    search, shape = make_search(config), (config.d, config.width)
    grid = make_grid(config.search.learning_rates, config.search.weight_decays)
    test = draw_examples(_stream(config, _TEST), config.num_test, config.d)
    found = search.run(
        _stream(config, _ORDER),
        {"w": config.init_std * jax.random.normal(_stream(config, _INIT), shape)},
        draw_examples(_stream(config, _TRAIN), config.num_train, config.d),
        test,
        grid,
        checkpoint_dir=directory / SCRATCH,
        progress=progress,
        measuring=Measuring(config.measures, config.measured_examples),
    )
    rows, count = {}, len(found.trained)
    for one in np.flatnonzero(found.trained == config.epochs).tolist():
        row = found.row(one) | {"relative_norm": relative_norm(found.params["w"][one])}
        if np.isfinite(list(row.values())).all():
            rows[one] = row
    if not rows:
        message = f"all {count} candidates diverged; lower config.search.learning_rates"
        return Outcome({}, [], "failed", message)
    best = min(rows, key=lambda candidate: rows[candidate]["test_error"])
    metrics = {**rows[best], "candidates": count, "candidates_finished": len(rows)}
    squares = np.asarray(search.distances(found, best, test))
    kept = outcomes.of_errors(squares, np.asarray(test.targets))
    (outcome,) = with_test([Outcome(metrics, [*rows.values()], outcomes=kept)], test)
    return with_course(outcome, found.measured, found.cost)


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Makes the networks of a group by hand, or searches for one width."""
    if group[0].config.part == "construction":
        return _construct(group)
    return [_search(group[0].config, directory, progress)]


# --- report -------------------------------------------------------------------------------------

# Results that a sweep of one part lacks, and columns of the searches' candidates.
_NUMBERS = ["part", "seed", "relative_norm", "test_error"]
_OF_SGD = ["width", "learning_rate", "weight_decay", "train_error", "test_error", "relative_norm"]


def _draw(d: int, hand: pd.DataFrame, runs: pd.DataFrame) -> Any:
    """Draws the least norm at most an error against the error: by hand, and by SGD."""
    figure, ((axis,),) = subplots(1, 1, 6, 4)
    for color, rows, error, label, style in (
        (PALETTE[0], hand, "test_error", "made by hand, test error", {"marker": "o"}),
        (PALETTE[1], runs, "train_error", "least by SGD, train error", {"ds": "steps-post"}),
        (PALETTE[2], runs, "test_error", "least by SGD, test error", {"ds": "steps-post"}),
    ):
        if len(rows):
            points = rows.sort_values([error, "relative_norm"])
            norms = d**0.5 * points["relative_norm"].cummin()
            axis.plot(points[error].clip(lower=1e-3), norms, color=color, label=label, **style)
    axis.set(xscale="log", xlim=(0.004, 1.2), ylim=(0, None), xlabel="error")
    axis.set(ylabel="Frobenius norm")
    axis.legend(frameon=False)
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns norms and errors of both kinds, the claims and the figure."""
    fine = runs.finished.reindex(columns=list(dict.fromkeys([*runs.finished, *_NUMBERS])))
    hand, searches = (fine[fine["part"] == part] for part in ("construction", "search"))
    candidates = files.read_histories(workdir, searches, ["id", "width", "seed"])
    candidates = candidates.reindex(columns=list(dict.fromkeys([*candidates, *_OF_SGD])))
    # The least norm of each search's candidates that fit as well as a network made by hand.
    fits = candidates[candidates["train_error"] <= HAND_MADE[0][1]]
    fitted = fine["id"].map(fits.groupby("id")["relative_norm"].min())
    best = candidates.sort_values(["width", "test_error"]).groupby("width").head(3)
    note = (
        f"d = {config.d}, N = {config.num_train}; relative_norm is |W|_F / sqrt(d), and an error "
        "the mean of (F - y)^2: of networks made by hand over all inputs, of those by SGD on "
        f"{config.num_test} fresh examples. The paper leaves initial weights, epochs and the "
        f"loss's scale open: here N(0, {config.init_std:g}^2), {config.epochs} epochs, half the "
        "squared error."
    )
    return Report(
        tables=[
            ("Made by hand", hand.filter(["width", "penalty", "relative_norm", "test_error"])),
            ("Best by SGD in test error", best[_OF_SGD]),
        ],
        claims=make_claims(config),
        runs=runs._replace(finished=fine).assign(num_test=config.num_test, fitted_norm=fitted),
        figures={"minimal_norm": functools.partial(_draw, config.d, hand, candidates)},
        extra_tables={"candidates": candidates},
        notes=[note],
    )


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    # All networks made by hand are one group; each search runs alone.
    varying=lambda config: tuple(config) if config.part == "construction" else (),
    columns=lambda config: {name: config[name] for name in ("part", "d", "num_train", "width")},
    report_version=3,
)
