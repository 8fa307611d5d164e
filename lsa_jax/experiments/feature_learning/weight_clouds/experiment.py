"""Directions of the neurons of a two-layer network, on two classes of images and on clusters.

Shi, Wei and Liang (ICLR 2022), appendices E.3.2 (mixtures of Gaussians) and E.4 (real data): an
ordinary ReLU network, plain SGD with momentum; directions of its weights after a few steps.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float, Int, Key

from lsa_jax.data import images, tasks
from lsa_jax.data.dataset import Dataset, best_constant_accuracy
from lsa_jax.experiments.feature_learning import dictionary
from lsa_jax.experiments.feature_learning.learning import learners
from lsa_jax.experiments.feature_learning.pictures import (
    NEAR,
    draw_pictures,
    picture_rows,
    read_courses,
    silhouette,
    spherical_means,
    table_of_pictures,
    unit_rows,
)
from lsa_jax.models import Dense, Model, Relu, network
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.reporting.claims import Claim, Condition, above_chance, in_all, shown
from lsa_jax.reporting.courses import is_measure
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import holds, value
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, with_last_measures, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training import LOSSES, is_correct, make_optimizer
from lsa_jax.training.segments import Checkpoints, Evaluations, run_evaluations


class WeightClouds:
    """Random streams of a seed's key: start, order of batches, the data's centres and splits."""

    INIT, ORDER, CENTRES, TRAIN, TEST = range(5)


class Cloud(NamedTuple):
    """A network's examples: inputs [n, d], targets [n], -1.0 or 1.0."""

    train: Dataset
    test: Dataset
    centres: Dataset  # of a mixture: [clusters, d] and their labels; images have none


class CloudState(NamedTuple):
    """One run between two steps; `step` stays where it is once a loss was not finite."""

    params: Any
    opt_state: Any
    step: Int[Array, ""]


def load(points: list[Point], data_dir: Path | None) -> Cloud | None:
    """Reads two classes of images; None for a mixture, which every seed draws for itself."""
    config = points[0].config
    if config.data.dataset == "gaussian_mixture":
        return None
    task = tasks.task_view(
        images.load(config.data.dataset, data_dir), "all", classes=config.data.classes
    )
    counts = (config.data.num_train, config.data.num_test)
    parts = [
        (part.inputs[:count].reshape(len(part.inputs[:count]), -1), part.targets[:count, 1])
        for part, count in zip(task[:2], counts, strict=True)
    ]
    mean, scale = dictionary.normalisation(parts[0][0])
    splits = [Dataset((x - mean[None]) / np.float32(scale), 2 * y - 1) for x, y in parts]
    none = Dataset(np.zeros((0, len(mean)), np.float32), np.zeros(0, np.float32))
    return Cloud(*splits, centres=none)


def make_mixture(config: Config) -> Cloud:
    """Draws a seed's clusters."""
    data, key = config.data, jax.random.key(config.seed)
    matrix = dictionary.orthonormal_dictionary(
        jax.random.fold_in(key, WeightClouds.CENTRES), data.d, data.k
    )
    variance = data.sigma_r**2 * (data.k if data.variance == "k/d" else 1) / data.d
    counts = {WeightClouds.TRAIN: data.num_train, WeightClouds.TEST: data.num_test}
    parts = [
        dictionary.gaussian_mixture(jax.random.fold_in(key, stream), count, matrix, variance**0.5)
        for stream, count in counts.items()
    ]
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * data.k)).reshape(data.k, -1).T
    centres = Dataset((signs @ np.asarray(matrix).T).astype(np.float32), signs.prod(axis=1))
    return Cloud(*parts, centres=centres)


def build_model(config: Config, d: int) -> Model:
    """Returns one hidden layer of ReLUs, biases 0."""
    hidden = Dense(config.m, w_std=config.init_std * d**0.5, b_std=0.0)
    output = Dense(1, w_std=config.output_std * config.m**0.5)
    return network([hidden, Relu(), output], parameterization="standard")


def advance(
    config: Config,
    count: int,
    state: CloudState,
    key: Key[Array, ""],
    cloud: tuple[Dataset, Dataset],
    num_steps: Int[Array, ""],
) -> tuple[CloudState, dict[str, Array]]:
    """Takes up to `count` steps; returns the state, its weights and 1.0 where the test is right."""
    (inputs, targets), test = cloud
    apply, loss = build_model(config, inputs.shape[1]).apply, LOSSES[config.loss]
    optimizer = make_optimizer("momentum", config.learning_rate, momentum=config.momentum)
    order, size = jax.random.fold_in(key, WeightClouds.ORDER), min(config.batch_size, len(targets))
    rows = learners.batch_rows(order, state.step, count, len(targets), size)

    def mean_loss(params: Any, batch: Int[Array, " batch"]) -> Float[Array, ""]:
        return jnp.mean(loss(apply(params, inputs[batch]), targets[batch]))

    state, _ = learners.take_steps(mean_loss, optimizer, rows, state, num_steps)
    return state, {
        "weights": state.params["Dense_0"]["weight"].T,
        "outputs": state.params["Dense_1"]["weight"][:, 0],
        "right": is_correct(apply(state.params, test.inputs), test.targets),
    }


def best_count(weights: Float[np.ndarray, "m d"]) -> int:
    """Returns the number of clusters, of `COUNTS`, whose silhouette is largest.

    Source: Rousseeuw (1987), Silhouettes, section 4.
    """
    counts = [count for count in COUNTS if count < len(weights)]
    return max(counts, key=lambda k: silhouette(weights, spherical_means(weights, k)[1]))


def measure_directions(
    config: Config,
    weights: Float[np.ndarray, "m d"],
    signs: Float[np.ndarray, " m"],
    centres: Float[np.ndarray, "c d"],
) -> dict[str, float]:
    """Measures how directions cluster, by `_COLUMNS`.

    Mean cosines of two neurons whose outputs have the same sign, and of two of opposite sign;
    spherical k-means; and the largest cosine with each centre of the mixture: its mean, its least,
    and the share of centres where it is `NEAR` or more.
    """
    rows = unit_rows(weights)
    products, same = rows @ rows.T, np.equal.outer(signs, signs)
    pairs = ~np.eye(len(rows), dtype=bool)
    found, cluster = spherical_means(weights, config.clusters)
    row = {
        "same_sign_cosine": products[same & pairs].mean(),
        "opposite_sign_cosine": products[~same].mean(),
        "own_centre_cosine": (rows * found[cluster]).sum(axis=1).mean(),
        "centres_cosine": (found @ found.T).min(),
        "silhouette": silhouette(weights, cluster),
        "best_count": best_count(weights),
    }
    if len(centres):
        best = (unit_rows(centres) @ rows.T).max(axis=1)
        row |= {"covered": best.mean(), "least_covered": best.min()}
        row["share_covered"] = (best >= NEAR).mean()
    return {name: float(value) for name, value in row.items()}


def run(
    group: list[Point], data: Cloud | None, directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains the networks of all seeds together and measures their directions on the way."""
    config, layout = group[0].config, ReplicaLayout(len(group))
    clouds = [make_mixture(p.config) if data is None else data for p in group]
    keys = layout.spread(jnp.stack([jax.random.key(p.config.seed) for p in group]))
    d = clouds[0].train.inputs.shape[1]
    model = build_model(config, d)
    optimizer = make_optimizer("momentum", config.learning_rate, momentum=config.momentum)

    def init(key: Key[Array, ""]) -> CloudState:
        params = model.init(jax.random.fold_in(key, WeightClouds.INIT), (d,))
        return CloudState(params, optimizer.init(params), jnp.int32(0))

    start = layout.gather(layout.map(init, 1)(keys))
    steps = sorted({0, *config.pictures})
    function = functools.partial(advance, config, int(max(np.diff(steps))))
    program = layout.map(function, 3 if data is None else 2)
    own = [(cloud.train, cloud.test) for cloud in clouds]
    examples = layout.share(own[0])
    if data is None:
        examples = layout.spread(jax.tree.map(lambda *leaves: jnp.stack(leaves), *own))
    trains = [cloud.train for cloud in clouds]
    course = learners.course_of_runs(config, model.apply, start.params, trains, steps)
    runs = run_evaluations(
        layout,
        lambda state, count: program(state, keys, examples, count),
        [start],
        steps,
        kept=Checkpoints(directory),
        course=course,
        progress=progress,
    )
    outcomes = []
    for i, (point, cloud) in enumerate(zip(group, clouds, strict=True)):
        measured = [course.row_of(i, step) if course else {} for step in config.pictures]
        found = _outcome(point.config, cloud, runs, i, measured)
        outcomes += with_test([with_last_measures(found, runs.cost)], cloud.test)
    return outcomes


def _outcome(
    config: Config, cloud: Cloud, runs: Evaluations, replica: int, measured: list[dict[str, float]]
) -> Outcome:
    """Returns the outcome of a run from its weights and results at each picture."""
    places = [runs.steps.index(step) for step in config.pictures]
    weights, outputs, right = (
        runs.table[name][places, replica].astype(np.float32)
        for name in ("weights", "outputs", "right")
    )
    signs, start, centres = np.sign(outputs), unit_rows(weights[0]), cloud.centres.inputs
    history, taken = [], int(runs.state.step[replica])
    for place, step in enumerate(config.pictures):
        found = measure_directions(config, weights[place], signs[place], centres)
        turned = float((start * unit_rows(weights[place])).sum(axis=1).mean())
        row = {"step": step, "test_accuracy": right[place].mean().item(), **found}
        history.append(row | {"cosine_with_start": turned} | measured[place])
    if taken < config.pictures[-1]:
        history = [row for row in history if row["step"] <= taken]
        message = f"the loss was not finite at step {taken}; lower config.learning_rate"
        return Outcome({}, history, "failed", message)
    last = {n: v for n, v in history[-1].items() if n != "step" and not is_measure(n)}
    start = {f"start_{name}": value for name, value in history[0].items() if name in last}
    targets = cloud.test.targets
    sizes = {"num_test": len(targets), "chance": best_constant_accuracy(targets)}
    pictures = picture_rows(list(config.pictures), list(weights), centres)
    for row, drawn, sign in zip(pictures, weights, signs, strict=True):
        row["mark_labels"] = cloud.centres.targets
        if not len(centres):
            # Without centres to be near to, the two colours are the signs of the output weights.
            row["nearest"] = (sign[np.linalg.norm(drawn, axis=1) > 0] < 0).astype(int)
    kept = Outcomes(right[-1] == 1)
    return Outcome(sizes | last | start, [*history, *pictures], outcomes=kept)


# --- claims and report ----------------------------------------------------------------------------

# Directions form clusters if their silhouette is above this: a "reasonable structure", Kaufman and
# Rousseeuw (1990), Finding Groups in Data.
STRUCTURE = 0.5
# The numbers of clusters that are compared.
COUNTS = (2, 3, 4, 5, 6)


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims of each scale of the initial weights."""
    scales = config.sweep.init_std or (config.init_std,)
    is_mixture, claims = config.data.dataset == "gaussian_mixture", []
    for std in scales:
        own, where = {"init_std": std}, f", initial scale {std:.2g}" if len(scales) > 1 else ""
        claims += [_mixture(where, own)] if is_mixture else _images(config, where, own)
    return claims


def _mixture(where: str, own: dict[str, float]) -> Claim:
    """Returns the claim on a mixture.

    A neuron within `NEAR` of a cluster's centre is nearer to it than to any other: half way between
    neighbouring corners of a cube the cosine is sqrt(1 - 1 / k), 0.89 at most for k up to 5.
    """
    return Claim(
        f"seeds in which each cluster has a neuron at a cosine of {NEAR:g}{where}",
        holds("share_covered", lambda share: share == 1, **own),
        paper="all: every centre is covered by some neurons",
        every=True,
        conditions=_learned("share_covered", own),
    )


def _images(config: Config, where: str, own: dict[str, float]) -> list[Claim]:
    """Returns the claims on images."""
    clusters = Claim(
        f"silhouette of {config.clusters} clusters of directions{where}",
        value("silhouette", bounds=(-1.0, 1.0), **own),
        paper=f"above {STRUCTURE:g}: weights form clusters",
        above=STRUCTURE,
        conditions=_learned("silhouette", own),
    )
    number = Claim(
        f"seeds in which {config.clusters} clusters, of {COUNTS[0]} to {COUNTS[-1]}, "
        f"have the largest silhouette{where}",
        holds("best_count", lambda count: count == config.clusters, **own),
        paper="all",
        every=True,
        luck=1 / len(COUNTS),
        conditions=(shown(clusters, "weights form clusters"),),
    )
    return [clusters, number]


def _learned(measure: str, settings: dict[str, float]) -> tuple[Condition, ...]:
    """Returns the conditions that the network learns, and that training raises a measure."""

    def raised(rows: pd.DataFrame) -> pd.Series:
        return rows[measure] > rows[f"start_{measure}"]

    more = in_all("more than before training", raised, **settings)
    return above_chance("the network", **settings), more


_COLUMNS = {
    "test_accuracy": "test accuracy",
    "cosine_with_start": "cosine with own start",
    "same_sign_cosine": "cosine, same output sign",
    "opposite_sign_cosine": "cosine, opposite sign",
    "own_centre_cosine": "cosine with own centre",
    "centres_cosine": "least cosine of two centres",
    "silhouette": "silhouette",
    "best_count": "best number of clusters",
    "covered": "best cosine a cluster of data, mean",
    "least_covered": "best cosine a cluster of data, least",
    "share_covered": f"share of clusters of data with a cosine of {NEAR:g}",
}


def _draw(rows: list[dict[str, Any]]) -> Any:
    """Draws one run's neurons as dots and a mixture's centres as stars, coloured by label."""
    titles = [f"after {row['picture']} steps" for row in rows]
    labels = rows[0]["mark_labels"]
    colors = tuple("#D62728" if label > 0 else "#FF8C00" for label in labels)
    return draw_pictures(rows, titles, colors) if colors else draw_pictures(rows, titles)


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the table, the claims and the pictures of the first seed of each scale."""
    rows = runs.finished.sort_values("init_std", kind="stable")
    curves, pictures = read_courses(workdir, rows, ["id", "init_std"])
    figures, extra = {}, {"curves": curves}
    for std, run in rows.groupby("init_std")["id"].first().items():
        name = f"weights_{std:.2g}" if figures else "weights"
        figures[name] = functools.partial(_draw, pictures[run])
        extra[name] = table_of_pictures(pictures[run])
    note = (
        "Means over seeds ± their standard deviation; pictures are of the first seed. The paper "
        "gives neither loss nor rate, batch or initial scale: the configuration's are ours. "
        "Directions cluster where initial weights are small; large weights hardly turn, and the "
        "accuracy rises all the same. Stars are the centres of a mixture, dots near one have its "
        "colour; on images colours are the signs of the output weights."
    )
    table = table_of_means(curves, ["init_std", "step"], _COLUMNS)
    return Report(
        tables=[("Directions of the neurons by step", table)],
        claims=make_claims(config),
        figures=figures,
        extra_tables=extra,
        notes=[note],
    )


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    # Each seed draws its test set of a mixture; that of images is shared.
    fresh=lambda config: config.data.dataset == "gaussian_mixture",
    report_version=2,
    varying=("seed",),
    columns=lambda config: {"init_std": config.init_std, "seed": config.seed},
)
