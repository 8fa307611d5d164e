"""What the structure of inputs does: one labelling function on real and on injected inputs.

Shi, Wei and Liang (ICLR 2022), appendix E.5, algorithm 1: a teacher learns the labelled inputs L,
with a regulariser that keeps its labels of the inputs U even and sure; it then labels L and U, and
a student learns the union of both, as far as the share of U allows. With a share of 0 it learns the
teacher's labels of L alone: what the injected inputs cost, apart from whose labels are learned. The
teacher's size is that of the first minimum of the test loss of networks trained on L directly.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array, Float, Int

from lsa_jax import parallel, training
from lsa_jax.data.dataset import Dataset, best_constant_accuracy
from lsa_jax.experiments.feature_learning.input_structure.report import make_report
from lsa_jax.experiments.feature_learning.input_structure.tasks import (
    Material,
    load,
    mix,
    mixture_parts,
)
from lsa_jax.experiments.feature_learning.resnet import quadratic_network, resnet18
from lsa_jax.experiments.feature_learning.streams import InputStructure
from lsa_jax.models.model import Model, accepted
from lsa_jax.sweep.experiment import Experiment, Outcome, with_last_measures
from lsa_jax.sweep.points import Point

# Settings in which the points of a group may differ.


def build_model(config: ml_collections.ConfigDict, size: int, num_classes: int) -> Model:
    """Returns FC(m) or ResNet(m)."""
    return (quadratic_network if config.model == "fc" else resnet18)(size, num_classes)


def teacher_loss(
    regularizer: float, entropy: float, outputs: Float[Array, "n c"], targets: Float[Array, "n c"]
) -> Float[Array, " n"]:
    """Returns the teacher's loss, spread over the examples of a batch so that their mean is it.

    Mean cross entropy over the labelled examples, plus the regulariser over the others: with f the
    class probabilities, R1 = sum_j fbar_j log fbar_j of their mean, which is least where classes
    are used evenly, and R2 = -mean sum_j f_j log f_j, which is least where labels are sure.

    Args:
        regularizer: weight of R1 + lambda R2.
        entropy: lambda.
        outputs: logits.
        targets: one-hot rows; zeros where there is no label.

    Source: Shi, Wei and Liang (2022), eqs. 291 to 293.
    """
    labelled = jnp.sum(targets, axis=1)
    weight = labelled / jnp.maximum(jnp.mean(labelled), 1 / len(labelled))
    logs = jax.nn.log_softmax(outputs)
    # A batch without other examples has R = 0; a class that none of them gets has finite slopes.
    count = jnp.sum(1 - labelled)
    others = jnp.where(count > 0, (1 - labelled) / jnp.maximum(count, 1.0), 1 / len(labelled))
    log_mean = jax.nn.logsumexp(logs, axis=0, b=others[:, None])
    regularizer = jnp.where(count > 0, regularizer, 0.0)
    r1 = jnp.sum(jnp.exp(log_mean) * log_mean)
    r2 = -jnp.sum(others[:, None] * jnp.exp(logs) * logs)
    crossed = -jnp.sum(targets * logs, axis=1)
    return weight * crossed + regularizer * (r1 + entropy * r2)


def _optimizer(config: ml_collections.ConfigDict) -> Any:
    return training.make_optimizer(config.optimizer, config.learning_rate)


def _keys(points: list[Point], stream: int) -> Array:
    return jnp.stack([jax.random.fold_in(jax.random.key(p.config.seed), stream) for p in points])


def _labels(
    model: Model, params: Any, inputs: Float[np.ndarray, "n h w c"], batch_size: int
) -> Int[np.ndarray, " n"]:
    """Returns the classes that a network gives, in batches of one size: those of training."""
    count = len(inputs)

    def classify(params: Any, x: Array, counted: Array) -> Int[Array, " batch"]:
        given = accepted(model.apply, counted=counted if count % batch_size else None)
        return jnp.argmax(model.apply(params, x, **given), axis=1)

    apply = parallel.compile_function(classify)
    places = np.arange(-(-count // batch_size) * batch_size).reshape(-1, batch_size)
    labels = [np.asarray(apply(params, inputs[i % count], 1.0 * (i < count))) for i in places]
    return np.concatenate(labels)[:count]


def _teach(
    group: list[Point], data: Material, directory: Path, progress: Callable[[float], None]
) -> tuple[dict[int, dict[str, Int[np.ndarray, " n"]]], dict[int, dict[str, Any]]]:
    """Trains the teachers of a group's seeds.

    Returns:
        By seed: the labels that the teacher gives to all inputs of either split, and its measures.
    """
    seeds = {point.config.seed: point for point in group}
    points, config = list(seeds.values()), group[0].config
    model = build_model(config, config.teacher_size, data.train.targets.shape[1])
    params, history = training.train(
        _keys(points, InputStructure.TEACHER),
        model,
        Dataset(*data.train),
        functools.partial(teacher_loss, config.regularizer, config.entropy),
        _optimizer(config),
        epochs=config.teacher_epochs,
        batch_size=2 * config.batch_size,
        evaluation=training.Evaluation(every=config.teacher_epochs),
        checkpoints=training.Checkpoints(directory / "teacher"),
        progress=progress,
    )
    generator = np.random.default_rng(config.data.seed)

    def taught(place: int) -> tuple[dict[str, Int[np.ndarray, " n"]], dict[str, Any]]:
        own, given = jax.tree.map(lambda leaf: leaf[place], params), {}
        for name, part in data._asdict().items():
            # Both kinds of inputs in every batch, as in training: it matters to batch statistics.
            order = generator.permutation(len(part.inputs))
            found = _labels(model, own, part.inputs[order], 2 * config.batch_size)
            given[name] = found[np.argsort(order)].astype(np.int32)
        failure = history.failures.get(place)
        return given, _teacher_measures(given, data) | ({"failure": failure} if failure else {})

    by_seed = {seed: taught(place) for place, seed in enumerate(seeds)}
    return (
        {seed: given for seed, (given, _) in by_seed.items()},
        {seed: measures for seed, (_, measures) in by_seed.items()},
    )


def _teacher_measures(labels: dict[str, Int[np.ndarray, " n"]], data: Material) -> dict[str, float]:
    """Returns how often a teacher is right, and how it spreads either kind of inputs over classes.

    `largest_label` is the share of the test images of the class that it gives to most of them.
    """
    truth = data.test.targets[: len(data.test.targets) // 2].argmax(axis=1)
    own = labels["test"][: len(truth)]
    counts = np.bincount(labels["train"][len(data.train.inputs) // 2 :], minlength=1)
    used = np.zeros(data.train.targets.shape[1])
    used[: len(counts)] = counts / counts.sum()
    return {
        "teacher_accuracy": float(np.mean(own == truth)),
        "largest_label": float(np.bincount(own).max() / len(own)),
        "least_used_class": float(used.min()),
        "most_used_class": float(used.max()),
    }


def _mixed(name: str, num_classes: int, arrays: Any, replica: Any, index: Array, epoch: Array):
    """Fetches a batch of a replica's mixture; the last column of targets says what is injected."""
    del epoch
    rows = replica[f"{name}_rows"][index]
    label = jax.nn.one_hot(replica[f"{name}_labels"][rows], num_classes)
    injected = (rows >= len(arrays) // 2).astype(jnp.float32)
    return Dataset(arrays[rows], jnp.concatenate([label, injected[:, None]], axis=1))


def _student_loss(outputs: Array, targets: Array) -> Array:
    return training.LOSSES["softmax_cross_entropy"](outputs, targets[:, :-1])


def _student_metrics() -> dict[str, Callable]:
    def correct(outputs: Array, targets: Array) -> Array:
        return training.is_correct(outputs, targets[:, :-1])

    return {
        "accuracy": correct,
        "labelled_part": lambda outputs, targets: correct(outputs, targets) * (1 - targets[:, -1]),
        "injected_part": lambda outputs, targets: correct(outputs, targets) * targets[:, -1],
    }


def _train_students(
    points: list[Point],
    labels: dict[int, dict[str, np.ndarray]],
    data: Material,
    directory: Path,
    progress: Callable[[float], None],
) -> training.History:
    """Trains students of one size and share as replicas: seeds."""
    config, num_classes = points[0].config, data.train.targets.shape[1]
    replicas, sizes = [], {}
    for point in points:
        own = {}
        for which, (name, part) in enumerate(data._asdict().items()):
            own[f"{name}_rows"] = mix(point, which, len(part.inputs) // 2)
            sizes[name] = len(own[f"{name}_rows"])
            own[f"{name}_labels"] = labels[point.config.seed][name]
        replicas.append(own)
    sources = {
        name: training.Source(
            jnp.asarray(part.inputs), sizes[name], functools.partial(_mixed, name, num_classes)
        )
        for name, part in data._asdict().items()
    }
    _, history = training.train(
        _keys(points, InputStructure.STUDENT),
        build_model(config, config.size, num_classes),
        sources["train"],
        _student_loss,
        lambda replica: _optimizer(config),
        epochs=config.epochs,
        batch_size=config.batch_size,
        evaluation=training.Evaluation(
            sources["test"],
            _student_metrics(),
            config.eval_every,
            measuring=training.Measuring(
                config.measures, config.measured_examples, targets=lambda targets: targets[:, :-1]
            ),
        ),
        replicas=jax.tree.map(lambda *leaves: jnp.stack(leaves), *replicas),
        checkpoints=training.Checkpoints(directory),
        progress=progress,
    )
    return history


def _train_directly(
    points: list[Point], data: Material, directory: Path, progress: Callable[[float], None]
) -> training.History:
    config = points[0].config
    splits = [Dataset(*(a[: len(part.inputs) // 2] for a in part)) for part in data]
    measuring = training.Measuring(config.measures, config.measured_examples)
    _, history = training.train(
        _keys(points, InputStructure.STUDENT),
        build_model(config, config.size, data.train.targets.shape[1]),
        splits[0],
        training.LOSSES["softmax_cross_entropy"],
        _optimizer(config),
        epochs=config.epochs,
        batch_size=config.batch_size,
        evaluation=training.Evaluation(splits[1], every=config.eval_every, measuring=measuring),
        checkpoints=training.Checkpoints(directory),
        progress=progress,
    )
    return history


def num_parameters(config: ml_collections.ConfigDict, data: Material) -> int:
    """Returns the number of a network's parameters."""
    model = build_model(config, config.size, data.train.targets.shape[1])
    shape = data.train.inputs.shape[1:]
    shapes = jax.eval_shape(lambda key: model.init(key, shape), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def _outcome(
    point: Point,
    history: training.History,
    replica: int,
    counts: dict[str, int],
    extra: dict[str, Any],
) -> Outcome:
    """Returns what came out of one network; `counts` are the inputs of L by split."""
    config = point.config
    described = {"learner": config.learner, "size": config.size, "seed": config.seed} | extra
    rows = []
    for row in history.rows:
        plain = {n: v[replica].item() if isinstance(v, np.ndarray) else v for n, v in row.items()}
        for split, count in counts.items():
            parts = mixture_parts(config.share, count)
            # Means over the whole mixture of what is counted in one part.
            for part, size in zip(("labelled", "injected"), parts, strict=True):
                name = f"{split}_{part}_part"
                if name in plain:
                    plain[name] = plain[name] * sum(parts) / size if size else float("nan")
        rows.append(plain)
    failure = extra.pop("failure", None) or history.failures.get(replica)
    if failure:
        return Outcome({}, rows, "failed", failure)
    last = {n: v for n, v in rows[-1].items() if n.startswith(("test_", "train_"))}
    return with_last_measures(Outcome(described | last, rows), history.measured)


def run(
    group: list[Point],
    materials: dict[str, Material],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Trains the teachers of a group, then its students by size and share; or networks on L."""
    config = group[0].config
    data = materials[config.data.injected]
    kinds = list(dict.fromkeys(map(_kind, group)))
    parts = len(kinds) + (config.learner == "student")

    def part_of(done: int) -> Callable[[float], None]:
        return lambda fraction: progress((done + fraction) / parts)

    labels: dict = {}
    measures: dict[int, dict[str, Any]] = {}
    if config.learner == "student":
        labels, measures = _teach(group, data, directory, part_of(0))
    counts = {name: len(part.inputs) // 2 for name, part in data._asdict().items()}
    chance = best_constant_accuracy(data.test.targets[: counts["test"]])
    outcomes: dict[str, Outcome] = {}
    for done, kind in enumerate(kinds, start=parts - len(kinds)):
        points = [point for point in group if _kind(point) == kind]
        place = directory / "_".join(f"{value:g}" for value in kind)
        if config.learner == "student":
            history = _train_students(points, labels, data, place, part_of(done))
        else:
            history = _train_directly(points, data, place, part_of(done))
        for replica, point in enumerate(points):
            extra = {"parameters": num_parameters(point.config, data), "chance": chance}
            if config.learner == "student":
                extra |= {"teacher_size": config.teacher_size, "share": point.config.share}
                extra |= measures[point.config.seed]
            outcomes[point.id] = _outcome(point, history, replica, counts, extra)
    return [outcomes[point.id] for point in group]


def _kind(point: Point) -> tuple[float, ...]:
    """Returns what networks have in common that are trained as replicas: size, share of a student.

    Replicas have equally many examples.
    """
    config = point.config
    return (config.size, config.share) if config.learner == "student" else (config.size,)


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    # All students of a teacher run together, and all networks that are trained directly.
    varying=lambda config: (
        "size",
        "share",
        "seed",
        *(("teacher_size",) if config.learner == "direct" else ()),
    ),
)
