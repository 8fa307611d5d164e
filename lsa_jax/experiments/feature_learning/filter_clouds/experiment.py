"""Directions of a ResNet's filters: two clusters a block, and gradients that agree.

Shi, Wei and Liang (ICLR 2022), appendix E.4.1: ResNet(m) on two classes of CIFAR-10; directions of
the filters of each block before, during and after training (figures 20 and 21); and cosines between
the gradients of the first steps, of the filter nearest to a cluster's centre (table 7).
"""

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from jaxtyping import Array, Float

from lsa_jax import parallel, training
from lsa_jax.data import images, tasks
from lsa_jax.data.dataset import Dataset, best_constant_accuracy
from lsa_jax.data.tasks import TaskData
from lsa_jax.experiments.feature_learning.networks import NUM_STAGES, last_filters, resnet18
from lsa_jax.experiments.feature_learning.numbers import RESNET
from lsa_jax.experiments.feature_learning.pictures import (
    draw_places,
    picture_rows,
    read_courses,
    spherical_means,
    unit_rows,
)
from lsa_jax.models import Model
from lsa_jax.reporting.claims import Claim, Condition, above_chance, shown
from lsa_jax.reporting.curves import subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy, mean_of, minus, value
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, outcome_of, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.programs import epoch_order, init_key


def load(points: list[Point], data_dir: Path | None) -> TaskData:
    """Reads two classes of images, standardised as a whole."""
    data = points[0].config.data
    task = tasks.task_view(
        images.load(data.dataset, data_dir),
        "all",
        classes=data.classes,
        num_train=data.num_train,
        num_test=data.num_test,
    )
    mean, std = task.train.inputs.mean(), task.train.inputs.std()
    train, test = (Dataset((part.inputs - mean) / std, part.targets) for part in task[:2])
    return task._replace(train=train, test=test)


def _optimizer(config: Config) -> optax.GradientTransformation:
    return training.make_optimizer(
        "momentum", config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay
    )


def _run_key(config: Config) -> Array:
    return jax.random.fold_in(jax.random.key(config.seed), 0)


def _train_to(
    group: list[Point],
    model: Model,
    data: TaskData,
    epochs: int,
    directory: Path,
    progress: Progress,
) -> tuple[Any, training.History]:
    """Trains a group's networks for some epochs from the start.

    The rate is constant, so a shorter training is the beginning of a longer one.
    """
    config = group[0].config
    return training.train(
        jnp.stack([_run_key(point.config) for point in group]),
        model,
        data.train,
        training.LOSSES["softmax_cross_entropy"],
        _optimizer(config),
        epochs=epochs,
        batch_size=config.batch_size,
        evaluation=training.Evaluation(
            data.test, batch_size=config.batch_size, measuring=training.Measuring(config.measures)
        ),
        checkpoints=training.Checkpoints(directory / f"epochs_{epochs}"),
        progress=progress,
    )


def _batch(config: Config, num_examples: int, step: int) -> np.ndarray:
    """Returns the examples that training takes in a step, counted from 0."""
    per_epoch = -(-num_examples // config.batch_size)
    order = epoch_order(_run_key(config), step // per_epoch, num_examples)
    first = step % per_epoch * config.batch_size
    return np.asarray(order)[first : first + config.batch_size]


def mean_gradients(config: Config, model: Model, data: Dataset) -> list[Float[np.ndarray, "3 _ _"]]:
    """Returns mean gradients of the last filters of each block over thirds of the first steps.

    The steps are those of `_train_to`: the same start, batches and updates.
    """
    optimizer, loss = _optimizer(config), training.LOSSES["softmax_cross_entropy"]
    params = model.init(init_key(_run_key(config)), data.inputs.shape[1:])

    def take(params: Any, opt_state: Any, inputs: Array, targets: Array) -> tuple:
        slope = jax.grad(lambda p: jnp.mean(loss(model.apply(p, inputs), targets)))(params)
        updates, opt_state = optimizer.update(slope, opt_state, params)
        filters = [last_filters(slope, stage) for stage in range(NUM_STAGES)]
        return optax.apply_updates(params, updates), opt_state, filters

    opt_state, chunk = optimizer.init(params), config.gradient_steps // 3
    sums: list[np.ndarray] = []
    compiled = parallel.compile_function(take)
    for step in range(config.gradient_steps):
        rows = _batch(config, len(data.targets), step)
        batch = data.inputs[rows], data.targets[rows]
        params, opt_state, filters = compiled(params, opt_state, *batch)
        flat = [np.asarray(f).reshape(-1, f.shape[-1]) / chunk for f in filters]
        sums = sums or [np.zeros((3, *f.shape), f.dtype) for f in flat]
        for total, f in zip(sums, flat, strict=True):
            total[step // chunk] += f
    return sums


def gradient_cosines(gradients: Float[np.ndarray, "3 d"]) -> dict[str, float]:
    """Returns cosines of three mean gradients v1, v2, v3 with their mean v, and of pairs.

    Source: Shi, Wei and Liang (2022), table 7.
    """
    v1, v2, v3, v = unit_rows(np.concatenate([gradients, gradients.mean(axis=0, keepdims=True)]))
    pairs = {"v1_v": (v1, v), "v2_v": (v2, v), "v3_v": (v3, v)}
    pairs |= {"v1_v2": (v1, v2), "v1_v3": (v1, v3), "v2_v3": (v2, v3)}
    return {name: float(a @ b) for name, (a, b) in pairs.items()}


def nearest_clusters(
    filters: Float[np.ndarray, "f d"], share: float
) -> tuple[Float[np.ndarray, "2 d"], list[np.ndarray], dict[str, float]]:
    """Returns two clusters: the filters nearest to either centre of spherical 2-means.

    Returns:
        The centres, that is the mean directions of these filters; the filters' numbers; and the
        mean cosine of either cluster with its centre, and the cosine of the centres.

    Source: Shi, Wei and Liang (2022), figures 20 and 21, whose clusters were picked by hand.
    """
    rows = unit_rows(filters)
    found, _ = spherical_means(rows, 2)
    count = max(round(share * len(rows)), 1)
    members = [np.argsort(-(rows @ centre), kind="stable")[:count] for centre in found]
    centres = unit_rows(np.stack([rows[own].mean(axis=0) for own in members]))
    cosines = [(rows[own] @ c).mean() for own, c in zip(members, centres, strict=True)]
    names = ("first_cosine", "second_cosine", "centres_cosine")
    measures = map(float, (*cosines, centres[0] @ centres[1]))
    return centres, members, dict(zip(names, measures, strict=True))


def _measure(
    config: Config, stages: list[Any], gradients: list[Float[np.ndarray, "3 _ _"]]
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Returns a network's numbers, and the pictures of its blocks at each epoch."""
    metrics: dict[str, float] = {}
    pictures: list[dict[str, Any]] = []
    epochs = [0, *config.epochs]
    for block in range(NUM_STAGES):
        filters = [np.asarray(last_filters(params, block)) for params in stages]
        weights = [one.reshape(-1, one.shape[-1]).T for one in filters]
        centres, members, measured = nearest_clusters(weights[-1], config.near_share)
        metrics |= {f"block{block + 1}_{name}": value for name, value in measured.items()}
        # Clusters are found in filters that have learned nothing, too.
        _, _, untrained = nearest_clusters(weights[0], config.near_share)
        metrics[f"block{block + 1}_start_centres_cosine"] = untrained["centres_cosine"]
        # Turns of directions: the paper's pictures change early, and little later.
        rows = [unit_rows(w) for w in weights]
        for at in range(1, len(epochs)):
            cosine = (rows[at - 1] * rows[at]).sum(axis=1).mean()
            metrics[f"block{block + 1}_moved_{epochs[at - 1]}_{epochs[at]}"] = float(1 - cosine)
        nearest = np.full(len(weights[-1]), -1)
        for cluster, own in enumerate(members):
            nearest[own] = cluster
        for row in picture_rows(epochs, weights, centres):
            pictures.append(row | {"nearest": nearest, "block": block + 1})
        # The filter nearest to the first cluster's mean, as in table 7, in the last block.
        if block == NUM_STAGES - 1:
            own = np.argmax(rows[-1] @ centres[0])
            metrics |= gradient_cosines(gradients[block][:, :, own])
    return metrics, pictures


def run(group: list[Point], data: TaskData, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains the networks of a width together and measures their filters."""
    config = group[0].config
    model = resnet18(config.filters, 2, scale=config.init_scale)
    total, done, trained = sum(config.epochs) + 1, 0, []
    for epochs in config.epochs:
        report = functools.partial(lambda n, own, f: progress((n + f * own) / total), done, epochs)
        trained.append(_train_to(group, model, data, epochs, directory, report))
        done += epochs
    history, targets = trained[-1][1], data.test.targets
    sizes = {"num_test": len(targets), "chance": best_constant_accuracy(targets)}

    def outcome(replica: int) -> Outcome:
        config = group[replica].config
        found = outcome_of(history, replica)
        if found.status == "failed":
            return found
        start = model.init(init_key(_run_key(config)), data.train.inputs.shape[1:])
        ends = [jax.tree.map(lambda leaf: leaf[replica], params) for params, _ in trained]
        gradients = mean_gradients(config, model, data.train)
        metrics, pictures = _measure(config, [start, *ends], gradients)
        kept = {name: v for name, v in found.metrics.items() if not name.endswith("_loss")}
        history_of = [*found.history, *pictures]
        return found._replace(metrics=sizes | kept | metrics, history=history_of)

    return with_test(map(outcome, range(len(group))), data.test)


# --- claims and report ----------------------------------------------------------------------------

# Smallest difference from cosines of random directions. By chance the cosine of two gradients of
# ResNet(8) differs from 0 by 0.04, and that of the centres over its blocks by as much.
MARGIN = 0.2
# Largest distance of an accuracy from the paper's, in points, and of a cosine: the paper's own two
# widths differ by 0.15 in the median. Expected standard deviations over seeds.
POINTS, COSINE = 3.0, 0.1
POINTS_SD, COSINE_SD = 0.5, 0.05
# Fewer filters have no direction of their own: two random ones have a centre near both.
FEWEST_FILTERS = 3

BLOCKS = (1, 2, 3, 4)
PAIRS = ("v1_v2", "v1_v3", "v2_v3")
CENTRES = tuple(f"block{block}_centres_cosine" for block in BLOCKS)


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on each width, agreement with printed numbers last."""
    claims = []
    for filters in config.sweep.filters:
        count = round(config.near_share * filters)
        few = "" if count >= FEWEST_FILTERS else f"{count}, {FEWEST_FILTERS} needed"
        enough = Condition("clusters have enough filters", lambda runs, few=few: few)
        learned = (above_chance(f"ResNet({filters})", filters=filters), enough)
        claims += _claims_of(config, filters, learned)
        if filters in RESNET:
            claims += _printed_claims(filters, learned)
    return claims


def _claims_of(config: Config, filters: int, learned: tuple[Condition, ...]) -> list[Claim]:
    """Returns the claims on a width's centres, gradients and turns."""

    def over_blocks(measure: str) -> Statistic:
        return mean_of([value(f"block{b}_{measure}", filters=filters) for b in BLOCKS])

    name, epochs = f"ResNet({filters})", (0, *config.epochs)
    # The least cosine of two of the three mean gradients in the paper, of this width or of any.
    widths = [filters] if filters in RESNET else RESNET
    least = min(RESNET[width][pair] for width in widths for pair in PAIRS)
    claims = [
        Claim(
            f"cosine of the two centres, untrained minus trained, mean over blocks, {name}",
            minus(over_blocks("start_centres_cosine"), over_blocks("centres_cosine")),
            paper=f"above {MARGIN:g}: training parts them",
            above=MARGIN,
            conditions=learned,
        ),
        Claim(
            f"cosine of two of the three mean gradients, mean of the pairs, {name}",
            mean_of([value(pair, filters=filters) for pair in PAIRS]),
            paper=f"above {least:g}, the paper's least: they agree",
            above=least,
            conditions=learned,
        ),
    ]
    if len(epochs) > 2:
        early, late = (over_blocks(f"moved_{a}_{b}") for a, b in (epochs[:2], epochs[-2:]))
        turned = shown(Claim("", early, above=MARGIN), "filters turn early")
        item = f"mean turn (1 - cosine) up to epoch {epochs[1]} minus from there to {epochs[-1]}, "
        conditions = (*learned, turned)
        claims.append(Claim(item + name, minus(early, late), above=0.0, conditions=conditions))
    return claims


def _printed_claims(filters: int, learned: tuple[Condition, ...]) -> list[Claim]:
    """Returns agreement with the printed accuracy and cosines, of centres and of gradients."""
    name, paper = f"ResNet({filters})", RESNET[filters]
    agreement = {"paper": 100 * paper["test_accuracy"], "within": POINTS, "seed_sd": POINTS_SD}
    item = f"test accuracy in %, {name}, within {POINTS:g} points"
    claims = [Claim(item, accuracy(filters=filters), **agreement)]
    for column in (*CENTRES, *PAIRS):
        end, conditions = value(column, filters=filters), learned
        if column in CENTRES:
            # Centres that lie as the paper's before training are no result of it.
            start = value(column.replace("centres", "start_centres"), filters=filters)
            parted = Claim("", minus(start, end), above=COSINE)
            conditions = (*learned, shown(parted, "training parts the centres"))
        item = f"{column.replace('_', ' ')}, {name}, within {COSINE:g}"
        agreement = {"paper": paper[column], "within": COSINE, "seed_sd": COSINE_SD}
        claims.append(Claim(item, end, conditions=conditions, **agreement))
    return claims


def _table(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the paper's numbers and ours by width, and the centres' cosines before training."""
    untrained = [name.replace("centres", "start_centres") for name in CENTRES]
    return pd.DataFrame(
        {
            "network": f"ResNet({filters})",
            "number": name.replace("_", " "),
            "paper": RESNET.get(filters, {}).get(name),
            "ours": mean_and_spread(own[name], ".4f", ".3f"),
        }
        for filters, own in rows.groupby("filters")
        for name in (*RESNET[128], *untrained)
    )


def _draw(pictures: list[dict[str, Any]]) -> Any:
    """Draws filters as dots and their centres as stars: a row a block, a column an epoch."""
    epochs = sorted({row["picture"] for row in pictures})
    figure, axes = subplots(len(BLOCKS), len(epochs), 3.2, 3.2)
    for row in pictures:
        axis = axes[row["block"] - 1, epochs.index(row["picture"])]
        draw_places(axis, row, ("#2CA02C", "#D62728"))
        axis.set(title=f"block {row['block']}, epoch {row['picture']}")
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the table, the claims and one picture a width, of its first seed."""
    curves, pictures = read_courses(workdir, runs.finished, ["id"])
    first = runs.finished.groupby("filters")["id"].first()
    note = (
        "Means over seeds ± their standard deviation. Filters are those of the last convolution of "
        "each block. The paper picked two clusters by hand; here they are the share "
        f"{config.near_share:g} of the filters nearest to either centre of spherical 2-means, and "
        "a centre is their mean direction. The centres of two clusters so found lie apart in "
        "untrained filters, too, and three unrelated gradients of equal length have a cosine of "
        "0.58 with their mean."
    )
    return Report(
        tables=[("The paper's numbers and ours", _table(runs.finished))],
        claims=make_claims(config),
        figures={
            f"filters_{filters}": functools.partial(_draw, pictures[run])
            for filters, run in first.items()
        },
        extra_tables={"curves": curves},
        notes=[note],
    )


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    report_version=2,
    varying=("seed",),
    columns=lambda config: {"filters": config.filters, "seed": config.seed},
)
