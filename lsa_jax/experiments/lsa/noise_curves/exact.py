"""Learners that solve for their predictions: kernel ridge regression, of kernels that may learn.

A kernel's matrices are computed in files, so that a run that was killed goes on with them. Where
there are more images than can be stored, the regression is on centres: one pass over images that
are composed batch by batch.
"""

import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lsa_jax import backend, kernels, processes, training
from lsa_jax.data.dataset import Dataset
from lsa_jax.diagnosis import runs
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import tasks
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.tasks import TEST, TRAIN, ImageTask, NoiseCurves
from lsa_jax.reporting import files
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import Config, Outcome, Point, Progress

# Share of the work that matrices take in a run that solves by iterations.
_MATRICES = 0.8

# Images that are composed at a time.
_BATCH = 4096

_MakeKernel = Callable[[Array, str], Callable]  # `(training inputs, method) -> kernel`

# Training images whose kernel by neural-tangents is compared with ours.
_COMPARED = 100


def solve(
    point: Point, task: ImageTask, make_kernel: _MakeKernel, scratch: Path, progress: Progress
) -> Outcome:
    """Fits a kernel's ridge regression to one point's data; before it, the kernel may learn."""
    settings = point.config[point.config.learner]
    if settings.solver == "nystrom":
        return _on_centres(point, task, make_kernel, scratch, progress)
    train, test = (
        tasks.composed(point, task, which, np.arange(len(split.targets)))
        for which, split in ((TRAIN, task.train), (TEST, task.test))
    )
    kernel = make_kernel(train.inputs, "auto")
    if LEARNERS[point.config.learner].learn is None:
        compared = {}
        if point.config.kernels != "ours":
            ours, kernel = kernel, make_kernel(train.inputs, point.config.kernels)
            compared["kernel_difference"] = _difference(ours, kernel, train.inputs[:_COMPARED])
        matrix = scratch / "train.npy"
        outcome = _regress(point, kernel, train, test, scratch, matrix, progress)
        return outcome._replace(metrics=outcome.metrics | compared)
    return _solve_learned(point, kernel, train, test, scratch, progress)


def _solve_learned(
    point: Point, kernel: Callable, train: Dataset, test: Dataset, scratch: Path, progress: Progress
) -> Outcome:
    """Lets a kernel learn, and fits its regression after the last update or after each."""
    config, settings = point.config, point.config[point.config.learner]
    updates, directory = settings.updates, scratch / "learned"
    # An update takes about the time of the matrices after the last one.
    share = updates / (updates + 1)
    learned = LEARNERS[config.learner].learn(
        kernel,
        settings,
        train.inputs,
        train.targets,
        key=jax.random.fold_in(jax.random.key(config.seed), NoiseCurves.POINTS),
        memory_limit=config.kernel_memory,
        directory=directory,
        keep_matrices=settings.every_update and settings.solver == "cholesky",
        progress=lambda f: progress(share * f),
    )
    reported = range(updates + 1) if settings.every_update else (updates,)
    outcomes = [
        _regress(
            point,
            learned[update],
            train,
            test,
            scratch / f"update_{update}",
            directory / f"gram_{update + 1}.npy",  # as the updates have left it, where they have
            lambda f, done=done: progress(share + (1 - share) * (done + f) / len(reported)),
        )
        for done, update in enumerate(reported)
    ]
    if len(outcomes) == 1:
        return outcomes[0]
    rows = [{"update": u, **o.metrics} for u, o in zip(reported, outcomes, strict=True)]
    after = {f"test_accuracy_update_{row['update']}": row["test_accuracy"] for row in rows}
    return outcomes[-1]._replace(metrics={**outcomes[-1].metrics, **after}, history=rows)


def _difference(ours: Callable, theirs: Callable, inputs: Array) -> float:
    """Returns the largest difference of two kernels on these inputs, over the largest entry."""
    own, other = (np.asarray(kernels.gram(kernel, inputs)) for kernel in (ours, theirs))
    return float(np.abs(own - other).max() / np.abs(own).max())


def _regress(
    point: Point,
    kernel: Callable,
    train: Dataset,
    test: Dataset,
    scratch: Path,
    matrix: Path,
    progress: Progress,
) -> Outcome:
    """Fits the regression of one kernel; its matrix of training images is kept at `matrix`."""
    config, settings = point.config, point.config[point.config.learner]
    choice = _chosen(settings, train, scratch)
    iterative = choice.solver != "cholesky"
    both = _MATRICES if iterative else 1.0
    # The symmetric matrix takes half the work of its size.
    share = both * len(train.inputs) / (len(train.inputs) + 2 * len(test.inputs))
    # Iterations work on a part of the matrix a process, in the file systems of several.
    gram = functools.partial(
        kernels.gram, kernel, memory_limit=config.kernel_memory, sharded=iterative
    )
    matrix = matrix.with_stem(matrix.stem + "_packed") if iterative else matrix
    begun, start = any(matrix.parent.glob(f"{matrix.stem}.*npy")), time.monotonic()
    gram_train = gram(
        train.inputs, path=matrix, packed=iterative, progress=lambda f: progress(share * f)
    )
    seconds = None if begun else round(time.monotonic() - start, 3)
    gram_test = gram(
        test.inputs,
        train.inputs,
        path=scratch / "test.npy",
        progress=lambda f: progress(share + (both - share) * f),
    )
    targets = np.asarray(train.targets)
    if iterative:
        matrices = gram_train, targets, gram_test
        outputs, solved = _iterate(*matrices, settings, scratch / "solution.npz", progress)
    else:
        rows = np.concatenate([gram_test, gram_train])
        if len(settings.ridge) > 1:
            fit = runs.fit_kernel(gram_train, rows, targets, settings.ridge)
            predictions, solved = fit.outputs, {"ridge": fit.ridge, "left_out": fit.left_out}
        else:
            solved = {"ridge": settings.ridge[0]}
            predictions = kernels.regress(gram_train, targets, rows, **solved).predictions
        outputs = np.split(predictions, [len(gram_test)])
        if config.predict:
            parts = gram_train, gram_test, gram(test.inputs, path=scratch / "others.npy")
            both = targets, np.asarray(test.targets)
            solved |= _predicted(parts, both, outputs[0], solved["ridge"])
    if choice.reason:
        solved |= {"solver": choice.solver, "solver_reason": choice.reason}
    return _outcome(outputs, (test.targets, train.targets), solved, seconds)


def _predicted(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    targets: tuple[np.ndarray, np.ndarray],
    outputs: np.ndarray,
    ridge: float,
) -> dict[str, object]:
    """Returns the squared test error, and its prediction from the kernel's spectrum.

    The pool is training and test images together. Errors are over the variance of its targets.
    `parts` are kernel matrices of training images, of test against training, and of test images.
    """
    if backend.dry_run() is not None:
        return {}
    seen, across, unseen = parts
    pool = np.concatenate(targets)
    centred, count = pool - pool.mean(axis=0), len(pool)
    spectrum = kernels.eigendecompose(np.block([[seen, across.T], [across, unseen]]))
    modes = kernels.modes(spectrum, centred)
    curve = kernels.predict_learning_curve(*modes, [len(seen)], ridge, pool=count)
    variance = np.sum(centred**2) / count
    error = np.sum((outputs - targets[1]) ** 2) / len(outputs)
    return {
        "squared_error": float(error / variance),
        "predicted_error": float(curve.test[0] / variance),
    }


def _outcome(
    predictions: Sequence[np.ndarray],
    targets: Sequence[Array | np.ndarray],
    solved: dict[str, object],
    seconds: float | None,
) -> Outcome:
    """Returns accuracies on test and training images, and how the system was solved."""
    right = [
        np.asarray(training.is_correct(found, expected)) == 1
        for found, expected in zip(predictions, targets, strict=True)
    ]
    names = ("test_accuracy", "train_accuracy")
    accuracies = {name: float(own.mean()) for name, own in zip(names, right, strict=True)}
    return Outcome(
        accuracies | solved,
        [solved | accuracies],
        timings={"matrix_seconds": seconds},
        outcomes=Outcomes(right[0]),
    )


def _chosen(settings: Config, train: Dataset, scratch: Path) -> kernels.Choice:
    """Returns the solver, with the reason for an automatic choice; the same after a kill."""
    if settings.solver != "auto":
        return kernels.Choice(settings.solver, "")
    kept, remedy = scratch / "solver.json", "remove it to have the solver chosen again"

    def decide() -> kernels.Choice:
        if kept.exists():
            try:
                return kernels.Choice(**files.read_object(kept, remedy))
            except TypeError:
                raise InputError(f"{kept} is damaged; {remedy}") from None
        if len(settings.ridge) > 1:
            choice = kernels.Choice("cholesky", "several ridges: leave-one-out errors choose")
        else:
            scratch.mkdir(parents=True, exist_ok=True)
            choice = kernels.choose_solver(*train.targets.shape)
        files.write_json(kept, choice._asdict())
        return choice

    return processes.everyone().from_first(decide)


def _iterate(
    gram_train: np.ndarray | kernels.PackedMatrix,
    targets: np.ndarray,
    gram_test: np.ndarray | kernels.ShardedRows,
    settings: Config,
    checkpoint: Path,
    progress: Progress,
) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, float]]:
    """Returns the predictions for test and training examples, and how the system was solved."""

    def report(iterations: int, residual: float) -> None:
        del iterations  # the residual falls about evenly on a logarithmic scale
        done = np.log(np.clip(residual, settings.tolerance, 1.0)) / np.log(settings.tolerance)
        progress(_MATRICES + (1 - _MATRICES) * float(done))

    fit = kernels.regress_cg(
        gram_train,
        targets,
        gram_test,
        ridge=settings.ridge[0],
        tolerance=settings.tolerance,
        checkpoint=checkpoint,
        progress=report,
    )
    # K w = Y - y0 - lambda w, as far as the system is solved: no other pass over the matrix.
    shift = fit.ridge * float(np.mean(gram_train.diagonal(), dtype=float))
    solved = {
        "ridge": fit.ridge,
        "iterations": fit.iterations,
        "residual": fit.residual,
        "kernel_gigabytes": (gram_train.nbytes + gram_test.nbytes) / 1e9,
    }
    return (fit.predictions, targets - shift * fit.weights), solved


def _on_centres(
    point: Point, task: ImageTask, make_kernel: _MakeKernel, scratch: Path, progress: Progress
) -> Outcome:
    """Fits a kernel's regression on centres; images are placed on their backgrounds batch by batch.

    The centres are training images, whose backgrounds may have less noise: it adds nothing useful
    to an image's features. Accuracy on training images is that on the first of them, as many as
    there are test images.
    """
    config, n = point.config, len(task.train.targets)
    settings, composed = config[config.learner], functools.partial(tasks.composed, point, task)
    if settings.centres > n:
        raise InputError(
            f"config.{config.learner}.centres is {settings.centres}; accepted: at most the {n} "
            "training images"
        )

    def batch(number: int) -> tuple[np.ndarray, np.ndarray]:
        first = number * _BATCH
        found = composed(TRAIN, np.arange(first, min(first + _BATCH, n)))
        return np.asarray(found.inputs), np.asarray(found.targets)

    key = jax.random.fold_in(jax.random.key(config.seed), NoiseCurves.CENTRES)
    chosen = np.sort(jax.random.permutation(key, n)[: settings.centres])
    noise = config.noise if settings.centre_noise is None else settings.centre_noise
    test = composed(TEST, np.arange(len(task.test.targets)))
    few = composed(TRAIN, np.arange(min(n, len(test.targets))))
    checkpoint = scratch / "sums.npz"
    begun, start = checkpoint.exists(), time.monotonic()
    fit = kernels.regress_nystrom(
        make_kernel(few.inputs, "auto"),
        composed(TRAIN, chosen, noise=jnp.float32(noise)).inputs,
        kernels.Stream(batch, -(-n // _BATCH)),
        np.concatenate([test.inputs, few.inputs]),
        ridge=settings.ridge[0],
        memory_limit=config.kernel_memory,
        checkpoint=checkpoint,
        progress=progress,
    )
    seconds = None if begun else round(time.monotonic() - start, 3)
    solved = {
        "ridge": fit.ridge,
        "centres": fit.rank,
        "examples": fit.num_examples,
        "condition": fit.condition,
        "train_error": fit.train_error,
    }
    predictions = np.split(fit.predictions, [len(test.targets)])
    return _outcome(predictions, (test.targets, few.targets), solved, seconds)
