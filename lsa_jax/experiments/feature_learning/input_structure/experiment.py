"""Effect of input structure: one labelling function on real and on injected inputs.

Shi, Wei and Liang (ICLR 2022), appendix E.5, algorithm 1: a teacher learns the labelled inputs L,
with a regulariser that keeps its labels of the inputs U even and sure; it then labels L and U, and
a student learns the union of both, as far as the share of U allows. A share of 0, the teacher's
labels of L alone, separates the effect of the injected inputs from that of another labelling.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsa_jax import parallel, training
from lsa_jax.data import images, tasks
from lsa_jax.data.dataset import Dataset, best_constant_accuracy
from lsa_jax.data.resizing import resize
from lsa_jax.experiments.feature_learning.input_structure.report import make_report
from lsa_jax.experiments.feature_learning.input_structure.settings import mixture_parts
from lsa_jax.experiments.feature_learning.networks import quadratic_network, resnet18
from lsa_jax.models.model import Model, accepted
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress, outcome_of, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point

# Random streams of a seed's key, and of the data's own key.
_TEACHER, _STUDENT, _MIXTURE = range(3)
_GAUSSIAN_TRAIN, _GAUSSIAN_TEST = range(2)


class Material(NamedTuple):
    """Both splits: labelled inputs, standardised as a whole, then as many injected ones.

    Inputs are [2 n, height, width, c], and targets [2 n, classes] one-hot for the labelled ones,
    zeros for the others.
    """

    train: Dataset
    test: Dataset


def _injected(
    config: Config, shapes: list[tuple[int, ...]], data_dir: Path | None
) -> list[np.ndarray]:
    """Returns U of training and of test, before standardisation where they are images."""
    if config.data.injected == "gaussian":
        key = jax.random.key(config.data.seed)
        return [
            np.asarray(jax.random.normal(jax.random.fold_in(key, stream), shape))
            for stream, shape in zip((_GAUSSIAN_TRAIN, _GAUSSIAN_TEST), shapes, strict=True)
        ]
    image_set = images.load("tiny_imagenet", data_dir)
    drawn = []
    for part, shape, seed in zip((image_set.train, image_set.test), shapes, (0, 1), strict=True):
        order = tasks.subset_order(np.asarray(part.targets), (config.data.seed, seed))
        # Where there are fewer pictures than labelled images, they come again.
        chosen = order[np.arange(shape[0]) % len(order)]
        drawn.append(np.asarray(resize(part.inputs[chosen], shape[1])))
    return drawn


def load(points: list[Point], data_dir: Path | None) -> dict[str, Material]:
    """Reads the labelled images and reads or draws the injected inputs, by their kind."""
    configs = {point.config.data.injected: point.config for point in points}
    return {kind: _material(config, data_dir) for kind, config in configs.items()}


def _material(config: Config, data_dir: Path | None) -> Material:
    task = tasks.task_view(
        images.load(config.data.dataset, data_dir),
        "all",
        num_train=config.data.num_train,
        num_test=config.data.num_test,
        subset_seed=config.data.seed,
    )
    labelled = [task.train, task.test]
    injected = _injected(config, [part.inputs.shape for part in labelled], data_dir)
    mean, std = task.train.inputs.mean(), task.train.inputs.std()
    if config.data.injected != "gaussian":
        injected = [(part - mean) / std for part in injected]
    elif config.data.gaussian_law == "pixelwise":
        pixels = (np.asarray(task.train.inputs) - mean) / std
        injected = [pixels.mean(axis=0) + pixels.std(axis=0) * part for part in injected]
    return Material(
        *(
            Dataset(
                np.concatenate([(part.inputs - mean) / std, u]).astype(np.float32),
                np.concatenate([part.targets, np.zeros_like(part.targets)]),
            )
            for part, u in zip(labelled, injected, strict=True)
        )
    )


def mix(point: Point, which: int, count: int) -> Int[np.ndarray, " n"]:
    """Draws which of 2 `count` inputs are in a mixture, shuffled; see `mixture_parts`."""
    key = jax.random.fold_in(jax.random.key(point.config.seed), _MIXTURE)
    generator = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist() + [which])
    labelled, injected = mixture_parts(point.config.share, count)
    chosen = [
        generator.permutation(count)[:labelled],
        count + generator.permutation(count)[:injected],
    ]
    return generator.permutation(np.concatenate(chosen)).astype(np.int32)


# By seed: the labels that the teacher gives to all inputs of either split, its measures, and why
# its training failed, if it did.
Taught = dict[int, tuple[dict[str, Int[np.ndarray, " _"]], dict[str, float], str | None]]


def build_model(config: Config, size: int, data: Material) -> Model:
    """Returns FC(m) or ResNet(m)."""
    build = quadratic_network if config.model == "fc" else resnet18
    return build(size, data.train.targets.shape[1])


def teacher_loss(
    regularizer: float, entropy: float, outputs: Float[Array, "n c"], targets: Float[Array, "n c"]
) -> Float[Array, " n"]:
    """Returns the teacher's loss, spread over the examples of a batch so that their mean is it.

    Mean cross entropy over the labelled examples, plus the regulariser R1 + lambda R2 over the
    others, whose targets are rows of zeros: with f the class probabilities,
    R1 = sum_j fbar_j log fbar_j of their mean, which is least where classes are used evenly, and
    R2 = -mean sum_j f_j log f_j, which is least where labels are sure; `entropy` is lambda.

    Source: Shi, Wei and Liang (2022), eqs. 291 to 293.
    """
    labelled = jnp.sum(targets, axis=1)
    weight = labelled / jnp.maximum(jnp.mean(labelled), 1 / len(labelled))
    logs = jax.nn.log_softmax(outputs)
    # A batch without other examples has R = 0; a class that is never given has finite slopes.
    count = jnp.sum(1 - labelled)
    others = jnp.where(count > 0, (1 - labelled) / jnp.maximum(count, 1.0), 1 / len(labelled))
    log_mean = jax.nn.logsumexp(logs, axis=0, b=others[:, None])
    regularizer = jnp.where(count > 0, regularizer, 0.0)
    r1 = jnp.sum(jnp.exp(log_mean) * log_mean)
    r2 = -jnp.sum(others[:, None] * jnp.exp(logs) * logs)
    crossed = -jnp.sum(targets * logs, axis=1)
    return weight * crossed + regularizer * (r1 + entropy * r2)


def _keys(points: list[Point], stream: int) -> Array:
    return jnp.stack([jax.random.fold_in(jax.random.key(p.config.seed), stream) for p in points])


def _labels(
    model: Model, params: Any, inputs: Float[np.ndarray, "n h w c"], batch_size: int
) -> Int[np.ndarray, " n"]:
    """Returns a network's classes of inputs, in batches of one size, as in training."""
    count = len(inputs)

    def classify(params: Any, x: Array, counted: Array) -> Int[Array, " batch"]:
        given = accepted(model.apply, counted=counted if count % batch_size else None)
        return jnp.argmax(model.apply(params, x, **given), axis=1)

    apply = parallel.compile_function(classify)
    places = np.arange(-(-count // batch_size) * batch_size).reshape(-1, batch_size)
    labels = [np.asarray(apply(params, inputs[i % count], 1.0 * (i < count))) for i in places]
    return np.concatenate(labels)[:count]


def _teach(group: list[Point], data: Material, directory: Path, progress: Progress) -> Taught:
    """Trains the teachers of a group's seeds."""
    seeds = {point.config.seed: point for point in group}
    points, config = list(seeds.values()), group[0].config
    model = build_model(config, config.teacher_size, data)
    params, history = training.train(
        _keys(points, _TEACHER),
        model,
        data.train,
        functools.partial(teacher_loss, config.regularizer, config.entropy),
        training.make_optimizer(config.optimizer, config.learning_rate),
        epochs=config.teacher_epochs,
        batch_size=2 * config.batch_size,
        evaluation=training.Evaluation(every=config.teacher_epochs),
        checkpoints=training.Checkpoints(directory / "teacher"),
        progress=progress,
    )
    generator = np.random.default_rng(config.data.seed)

    taught: Taught = {}
    for place, seed in enumerate(seeds):
        own, given = jax.tree.map(lambda leaf, at=place: leaf[at], params), {}
        for name, part in data._asdict().items():
            # Both kinds of inputs in every batch, as in training: batch statistics depend on it.
            order = generator.permutation(len(part.inputs))
            found = _labels(model, own, part.inputs[order], 2 * config.batch_size)
            given[name] = found[np.argsort(order)].astype(np.int32)
        taught[seed] = given, _teacher_measures(given, data), history.failures.get(place)
    return taught


def _teacher_measures(labels: dict[str, Int[np.ndarray, " _"]], data: Material) -> dict[str, float]:
    """Returns a teacher's accuracy on L, and the shares of classes among its labels.

    `largest_label` is the share, among labelled test images, of the class given most often; the
    least and the most used class are those of the injected training inputs.
    """
    truth = data.test.targets[: len(data.test.targets) // 2].argmax(axis=1)
    own, classes = labels["test"][: len(truth)], data.train.targets.shape[1]
    of_injected = labels["train"][len(data.train.inputs) // 2 :]
    used = np.bincount(of_injected, minlength=classes) / len(of_injected)
    return {
        "teacher_accuracy": float(np.mean(own == truth)),
        "largest_label": float(np.bincount(own).max() / len(own)),
        "least_used_class": float(used.min()),
        "most_used_class": float(used.max()),
    }


def _mixed(name: str, num_classes: int, arrays: Any, replica: Any, index: Array, epoch: Array):
    """Fetches a batch of a replica's mixture; the last column of targets is 1 where injected."""
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


def _train(
    points: list[Point], taught: Taught, data: Material, directory: Path, progress: Callable
) -> tuple[training.History, list[Int[np.ndarray, " _"]]]:
    """Trains students of one size and share as replicas, or networks on L directly.

    Returns the history, and the numbers of the test inputs of each replica.
    """
    config, classes = points[0].config, data.train.targets.shape[1]
    sources, replicas, targets, metrics = {}, None, None, None
    loss = training.LOSSES["softmax_cross_entropy"]
    if config.learner == "direct":
        for name, part in data._asdict().items():
            sources[name] = Dataset(*(array[: len(part.inputs) // 2] for array in part))
        tested = [np.arange(len(sources["test"].targets), dtype=np.int32)] * len(points)
    else:
        given: dict[str, list[np.ndarray]] = {}
        for which, (name, part) in enumerate(data._asdict().items()):
            rows = [mix(point, which, len(part.inputs) // 2) for point in points]
            labels = [taught[point.config.seed][0][name] for point in points]
            given |= {f"{name}_rows": rows, f"{name}_labels": labels}
            fetch = functools.partial(_mixed, name, classes)
            sources[name] = training.Source(jnp.asarray(part.inputs), len(rows[0]), fetch)
        replicas = {name: jnp.stack(arrays) for name, arrays in given.items()}
        loss, metrics, targets = _student_loss, _student_metrics(), lambda targets: targets[:, :-1]
        tested = given["test_rows"]
    measuring = training.Measuring(config.measures, config.measured_examples, targets=targets)
    _, history = training.train(
        _keys(points, _STUDENT),
        build_model(config, config.size, data),
        sources["train"],
        loss,
        training.make_optimizer(config.optimizer, config.learning_rate),
        epochs=config.epochs,
        batch_size=config.batch_size,
        evaluation=training.Evaluation(
            sources["test"], metrics, config.eval_every, measuring=measuring
        ),
        replicas=replicas,
        checkpoints=training.Checkpoints(directory),
        progress=progress,
    )
    return history, tested


def num_parameters(config: Config, data: Material) -> int:
    """Returns the number of a network's parameters."""
    model, shape = build_model(config, config.size, data), data.train.inputs.shape[1:]
    shapes = jax.eval_shape(lambda key: model.init(key, shape), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


def _in_order(found: Outcome, rows: np.ndarray, data: Material, share: float) -> Outcome:
    """Puts outcomes in the order of the test inputs, so that seeds and learners are paired.

    None are kept where each seed draws its own subset of either kind: the seeds share a part of
    their test inputs then, and count neither as independent nor as equal.
    """
    count, order = len(data.test.inputs) // 2, np.argsort(rows)
    if not {*mixture_parts(share, count)} <= {0, count}:
        return found._replace(outcomes=None)
    found = found._replace(outcomes=Outcomes(found.outcomes.values[order]))
    return with_test([found], data.test.inputs[rows[order]])[0]


def _by_part(row: dict[str, Any], share: float, data: Material) -> dict[str, Any]:
    """Returns numbers in which accuracies of a part, means over the mixture, are the part's own."""
    row = dict(row)
    for split, part in data._asdict().items():
        sizes = mixture_parts(share, len(part.inputs) // 2)
        for name, size in zip(("labelled", "injected"), sizes, strict=True):
            if (column := f"{split}_{name}_part") in row:
                row[column] = row[column] * sum(sizes) / size if size else float("nan")
    return row


def run(
    group: list[Point], materials: dict[str, Material], directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains the teachers of a group, then its students by size and share; or networks on L."""
    config = group[0].config
    data, is_student = materials[config.data.injected], config.learner == "student"
    kinds: dict[tuple[float, ...], list[Point]] = {}
    for point in group:  # replicas have equally many examples
        kind = (point.config.size, point.config.share)
        kinds.setdefault(kind if is_student else kind[:1], []).append(point)
    parts = len(kinds) + is_student

    def part_of(done: int) -> Progress:
        return lambda fraction: progress((done + fraction) / parts)

    taught = _teach(group, data, directory, part_of(0)) if is_student else {}
    chance = best_constant_accuracy(data.test.targets[: len(data.test.targets) // 2])
    outcomes: dict[str, Outcome] = {}
    for done, (kind, points) in enumerate(kinds.items(), start=int(is_student)):
        place = directory / "_".join(f"{value:g}" for value in kind)
        history, tested = _train(points, taught, data, place, part_of(done))
        for replica, point in enumerate(points):
            share = point.config.share if is_student else 0.0
            found, of_teacher = outcome_of(history, replica), {}
            if is_student:
                of_teacher, failure = taught[point.config.seed][1:]
                if failure:
                    found = Outcome({}, found.history, "failed", failure)
            found = found._replace(history=[_by_part(row, share, data) for row in found.history])
            if found.status == "ok":
                own = {"parameters": num_parameters(point.config, data), "chance": chance}
                metrics = own | of_teacher | _by_part(found.metrics, share, data)
                found = _in_order(found, tested[replica], data, share)._replace(metrics=metrics)
            outcomes[point.id] = found
    return [outcomes[point.id] for point in group]


def _columns(config: Config) -> dict[str, Any]:
    """Returns the settings of a point that are columns of its results."""
    own = ("teacher_size", "share") if config.learner == "student" else ()
    return {name: config[name] for name in ("learner", "size", "seed", *own)}


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    report_version=2,
    # Students of a teacher run together, and networks that are trained directly.
    varying=lambda config: (
        ("size", "share", "seed")
        if config.learner == "student"
        else ("size", "share", "seed", "teacher_size")
    ),
    columns=_columns,
)
