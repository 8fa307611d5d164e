"""Trains a network on a task's splits, fits its kernels, and measures them on the same examples."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from jaxtyping import Array, Float, Key

from lsa_jax import backend, kernels, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.diagnosis.tasks import Split, Task
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.models.model import ExampleShape, Model, with_state_of
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.runs import Runs
from lsa_jax.training.course import subsample
from lsa_jax.training.programs import Source, init_key

# Numbers whose cost does not depend on the kinds of layers.
MEASURES = ("kernel_distance", "kernel_alignment", "target_alignment")
# Ridges over a kernel's mean diagonal, among which leave-one-out errors choose.
RIDGES = tuple(10.0**power for power in range(-6, 2))
_AT_ONCE = 256  # examples that a network is evaluated on at a time


class Pair(NamedTuple):
    """A network's parameters at the start and after training."""

    start: Any
    trained: Any


class Prediction(NamedTuple):
    """A learner's outputs [n, c] on test examples.

    `left_out` is the mean squared error on training examples left out one at a time. It and the
    ridge are NaN of networks.
    """

    outputs: np.ndarray
    left_out: float = np.nan
    ridge: float = np.nan


def loss_of(task: Task) -> Callable[..., Array]:
    """Returns the loss of a task's kind of targets."""
    if task.kind == "numbers":
        return training.squared_error
    several = task.train.targets.shape[1] > 1
    return training.softmax_cross_entropy if several else training.logistic


def train(
    keys: Key[Array, " seeds"],
    model: Model,
    task: Task,
    parts: Sequence[Split],
    *,
    epochs: int,
    batch_size: int,
    optimizer: optax.GradientTransformation,
    fit: float,
    progress: Callable[[float], None],
) -> tuple[list[list[Pair]], pd.DataFrame, int]:
    """Trains one network a seed and split (of equal sizes), all in one program.

    Training ends after the first epoch at which every network has an accuracy, or R^2, of `fit` on
    its training examples.

    Returns:
        Pairs of parameters by split and seed; c of each seed after epochs 1, 2, 4..., a table of
        `epoch`, `seed` and `linearization_error`; and the epochs that were trained.

    Raises:
        InputError: training fails.
    """
    every = task.train
    rows = [part.rows for part in parts]
    replicas = jnp.asarray(np.repeat(rows, len(keys), axis=0))
    of_all = jnp.stack([key for _ in parts for key in keys])

    starts = [model.init(init_key(key), ExampleShape.of(every.inputs)) for key in keys]
    course: list[dict[str, float]] = []

    def pairs(params: Any) -> list[list[Pair]]:
        def own(replica: int) -> Any:
            return jax.tree.map(lambda a: np.asarray(a[replica]), params)

        return [
            [Pair(start, own(len(keys) * i + seed)) for seed, start in enumerate(starts)]
            for i in range(len(parts))
        ]

    def watch(epoch: int, params: Any) -> None:
        errors = _errors_of_seeds(model, task, parts, pairs(params))
        for seed, error in enumerate(errors):
            course.append({"epoch": epoch, "seed": seed, "linearization_error": error})

    try:
        trained, history = training.train(
            of_all,
            model,
            Source(Dataset(*map(jnp.asarray, every)), len(rows[0]), _rows_of_split),
            loss_of(task),
            optimizer,
            epochs=epochs,
            batch_size=batch_size,
            evaluation=training.Evaluation(
                metrics=None if task.kind == "classes" else {},
                stop=functools.partial(_is_fitted, task, fit),
                watch=watch,
            ),
            replicas=replicas,
            progress=progress,
        )
    except NumericalError as error:
        raise _failed(str(error)) from None
    if history.failures:
        raise _failed(next(iter(history.failures.values())))
    return pairs(trained), pd.DataFrame(course), history.rows[-1]["epoch"]


def _rows_of_split(arrays: Any, rows: Array, index: Array, epoch: Array) -> Dataset:
    del epoch
    return Dataset(*(array[rows[index]] for array in arrays))


def _is_fitted(task: Task, fit: float, row: dict[str, np.ndarray]) -> bool:
    """Whether all networks have an accuracy, or R^2, of `fit` on their training examples."""
    if task.kind == "classes":
        return bool((row["train_accuracy"] >= fit).all())
    # Targets have variance 1 a column, so that R^2 = 1 - 2 loss / columns.
    return bool((row["train_loss"] <= 0.5 * task.train.targets.shape[1] * (1 - fit)).all())


def _failed(reason: str) -> InputError:
    return InputError(
        f"model or optimizer: training failed, {reason}; accepted: losses that stay finite"
    )


def compare(
    model: Model,
    kernel: Callable[..., Array] | None,
    task: Task,
    parts: Sequence[Split],
    pairs: Sequence[Sequence[Pair]],
    measured_examples: int,
    progress: Callable[[float], None],
) -> Runs:
    """Returns the results of the network and its kernels, a row a learner and seed.

    Pairs of parameters are by split and seed; the results of a seed are on the test examples of all
    splits. Measures are on so many training examples. `kernel` is that at infinite width, or None.
    """
    seeds, done, total = len(pairs[0]), 0, len(parts) * (len(pairs[0]) + 1)
    found: dict[tuple[str, int], list[Prediction]] = {}
    networks: list[list[dict[str, Any]]] = [[] for _ in range(seeds)]
    outputs = functools.partial(_outputs, jax.jit(model.apply))

    def of(params: Any) -> Callable[..., np.ndarray]:
        return functools.partial(kernels.gram, kernels.finite_kernel(model.apply, params))

    for part, trained in zip(parts, pairs, strict=True):
        infinite = kernel and _regress(functools.partial(kernels.gram, kernel), part)
        done += 1
        progress(done / total)
        for seed, given in enumerate(trained):
            pair = _of_one_state(model, given, part.test.inputs)
            end = outputs(pair.trained, part.test.inputs)
            fit = _scores(task, outputs(pair.trained, part.train.inputs), part.train, "train")
            squares = _squares(model, pair, part.test.inputs, _is_centred(task))
            networks[seed].append(fit | {"squares": squares})
            if len(networks[seed]) == 1:
                index = np.asarray(subsample(len(part.rows), measured_examples))
                few = Dataset(*(a[index] for a in part.train))
                networks[seed][0] |= training.measures.measure(MEASURES, model.apply, *pair, *few)
            results = {
                "network": Prediction(end),
                "ntk_trained": _regress(of(pair.trained), part),
                "ntk_finite": _regress(of(pair.start), part),
            } | ({"ntk_infinite": infinite} if infinite else {})
            for name, prediction in results.items():
                found.setdefault((name, seed), []).append(prediction)
            done += 1
            progress(done / total)
    return _joined(task, parts, found, list(map(_of_network, networks)))


def linearization_error(model: Model, pair: Pair, inputs: np.ndarray, *, centred: bool) -> float:
    """Returns c of a network (`reporting.grades`); both ends have the trained state.

    On inputs of the test set; outputs are `centred` over classes where `training.measures` has them
    so.
    """
    return _ratio(_squares(model, pair, inputs, centred))


def _squares(model: Model, pair: Pair, inputs: np.ndarray, centred: bool) -> np.ndarray:
    """Returns |f_T - f_0 - J_0 (theta_T - theta_0)|^2 and |f_T - f_0|^2, summed over inputs."""
    pair, parts = _of_one_state(model, pair, inputs), -(-len(inputs) // _AT_ONCE)
    sums = np.zeros(2)
    for batch in np.array_split(inputs, parts):  # of two sizes at most, which share programs
        sums += training.measures.linearization_residual(model.apply, *pair, batch, centred)
    return sums


def _ratio(squares: np.ndarray) -> float:
    """Returns c, the root of their ratio; NaN of a network that did not move."""
    missed, moved = squares
    return float(np.sqrt(missed / moved)) if moved else np.nan


def _is_centred(task: Task) -> bool:
    return task.kind == "classes" and task.train.targets.shape[1] > 1


def _of_network(parts: list[dict[str, Any]]) -> dict[str, float]:
    """Returns c, the mean training score and the measures of a seed, from those of its splits."""
    row = {"linearization_error": _ratio(sum(part.pop("squares") for part in parts))} | parts[0]
    means = pd.DataFrame(parts).mean()  # measures are of the first split alone
    return row | {name: means[name] for name in row if name.startswith("train_")}


def _errors_of_seeds(
    model: Model, task: Task, parts: Sequence[Split], pairs: Sequence[Sequence[Pair]]
) -> list[float]:
    """Returns c of each seed, over the test examples of all splits."""
    squares = sum(
        np.array([_squares(model, pair, part.test.inputs, _is_centred(task)) for pair in trained])
        for part, trained in zip(parts, pairs, strict=True)
    )
    return list(map(_ratio, squares))


def _of_one_state(model: Model, pair: Pair, inputs: np.ndarray) -> Pair:
    """Returns a pair whose start has the trained network's state, such as running statistics."""
    return pair._replace(start=with_state_of(model, pair.start, pair.trained, inputs[:1]))


def _joined(
    task: Task,
    parts: Sequence[Split],
    found: dict[tuple[str, int], list[Prediction]],
    networks: list[dict[str, Any]],
) -> Runs:
    """Returns a row a learner and seed, over the test examples of all splits."""
    tested = Dataset(*map(np.concatenate, zip(*(part.test for part in parts), strict=True)))
    rows, kept = [], {}
    for (name, seed), predictions in found.items():
        joined = np.concatenate([one.outputs for one in predictions])
        row = {"id": f"{name}-{seed}", "learner": name, "seed": seed}
        row |= {"num_test": len(tested.targets)} | _scores(task, joined, tested)
        row["left_out"] = float(np.mean([one.left_out for one in predictions]))
        rows.append(row | (networks[seed] if name == "network" else {}))
        kept[row["id"]] = Outcomes(_outcomes(task, joined, tested), "test")
    table = pd.DataFrame(rows).assign(chance=task.chance, num_train=len(parts[0].rows))
    return Runs.of([], table, kept)


def _outputs(apply: Callable, params: Any, inputs: np.ndarray) -> np.ndarray:
    """Returns a network's outputs [n, c], computed in batches of one size."""
    size = min(_AT_ONCE, len(inputs))
    filled = np.concatenate([inputs, inputs[: -len(inputs) % size]])
    batches = [apply(params, filled[i : i + size]) for i in range(0, len(filled), size)]
    return np.concatenate(list(map(np.asarray, batches)))[: len(inputs)]


def fit_kernel(
    gram_train: Float[np.ndarray, "n n"],
    gram_test: Float[np.ndarray, "m n"],
    targets: Float[Array | np.ndarray, "n c"],
    ridges: Sequence[float] = RIDGES,
) -> Prediction:
    """Returns the exact ridge regression at the ridge with the least leave-one-out error.

    Raises:
        NumericalError: the matrix is not positive definite at any ridge.
    """
    if backend.dry_run() is not None:  # matrices are zeros
        fit = kernels.regress(gram_train, targets, gram_test, ridge=max(ridges))
        return Prediction(fit.predictions)
    gram_train = np.asarray(gram_train, float)
    if not gram_train.any():
        raise NumericalError(
            "a kernel matrix is 0: the network's outputs on the training examples do not depend on "
            "its parameters"
        )
    spectrum = kernels.eigendecompose((gram_train + gram_train.T) / 2)
    errors = kernels.leave_one_out(spectrum, targets, ridges)
    best = int(np.argmin(errors))
    if not np.isfinite(errors[best]):
        raise NumericalError(
            f"a kernel matrix is singular at every ridge up to {max(ridges):g}; remove examples "
            "that are equal, or check the network's outputs"
        )
    (predictions,) = kernels.ridge_path(spectrum, targets, gram_test, [ridges[best]])
    return Prediction(np.asarray(predictions), float(errors[best]), ridges[best])


def _regress(gram: Callable[..., np.ndarray], part: Split) -> Prediction:
    gram_test = gram(part.test.inputs, part.train.inputs)
    return fit_kernel(gram(part.train.inputs), gram_test, part.train.targets)


def _outcomes(task: Task, outputs: np.ndarray, examples: Dataset) -> np.ndarray:
    """Returns whether each answer is right, or its error over the targets' standard deviation.

    Of several columns the error is the root of their mean square. Where targets are all equal, it
    is over that of the training targets, which is 1.
    """
    if task.kind == "classes":
        return np.asarray(training.is_correct(outputs, examples.targets)) == 1
    varied = np.ptp(examples.targets, axis=0) > 0  # the spread of equal numbers may be rounding
    spread = np.where(varied, examples.targets.std(0), 1.0)
    return np.sqrt(np.mean(((outputs - examples.targets) / spread) ** 2, axis=1))


def _scores(
    task: Task, outputs: np.ndarray, examples: Dataset, which: str = "test"
) -> dict[str, float]:
    """Returns the accuracy, or R^2: of several columns its mean."""
    found = _outcomes(task, outputs, examples)
    if task.kind == "classes":
        return {f"{which}_accuracy": float(found.mean())}
    return {f"{which}_r2": float(1 - np.mean(found**2))}
