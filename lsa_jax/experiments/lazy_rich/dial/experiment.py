"""From lazy to rich: a network on noisy digits, by its output scale and by its width.

Two dials turn a network into its linearisation. The output scale alpha trains alpha (f - f_0)
(`models.scaled`): large is lazy. The width does in the NTK parameterisation, and does not in muP.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np

from lsa_jax import kernels, models, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.experiments.lazy_rich import networks, tasks
from lsa_jax.experiments.lazy_rich.dial.report import make_report
from lsa_jax.experiments.lazy_rich.tasks import TEST, TRAIN, DigitsTask, load
from lsa_jax.models.scaled import FROZEN, network_params
from lsa_jax.reporting.measure_names import is_measure
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, with_last_measures, with_test
from lsa_jax.sweep.points import Point


def rate_of(config: ml_collections.ConfigDict) -> float:
    """Returns a point's learning rate.

    The speed at which outputs move does not depend on an output scale from 1 up. Below 1 the loss
    curves as 1 / alpha, so the rate falls with alpha. In the standard parameterisation the kernel
    grows with the width, so the rate falls with it; in the other two it stays.
    """
    rate = config.rates[config.parameterization] * min(1.0, config.output_scale)
    return rate / config.width_factor if config.parameterization == "standard" else rate


def _solve(point: Point, task: DigitsTask, scratch: Path) -> Outcome:
    """Fits the exact regression with the finite NTK of the network as it is drawn."""
    config, model = point.config, networks.build(point.config)
    train, test = (
        tasks.whole(config, which, split)
        for which, split in ((TRAIN, task.train), (TEST, task.test))
    )
    kernel = kernels.finite_kernel(model.apply, networks.initial(config, model, task))
    gram = functools.partial(kernels.gram, kernel, memory_limit=config.kernel_memory)
    scratch.mkdir(parents=True, exist_ok=True)
    gram_train = gram(train.inputs, path=scratch / "train.npy")
    gram_test = gram(test.inputs, train.inputs, path=scratch / "test.npy")
    fit = kernels.regress(gram_train, train.targets, gram_test, ridge=config.ridge)
    right = np.asarray(training.is_correct(fit.predictions, test.targets)) == 1
    return Outcome({"test_accuracy": float(right.mean())}, [], outcomes=Outcomes(right))


def _with_means(metrics: dict[str, Any]) -> dict[str, Any]:
    """Returns metrics with the mean over layers of each measure that has a number a layer."""
    of_layers: dict[str, list[float]] = {}
    for name, value in metrics.items():
        measure, _, layer = name.partition("/")
        if layer and is_measure(name):
            of_layers.setdefault(measure, []).append(value)
    return metrics | {name: sum(values) / len(values) for name, values in of_layers.items()}


def _train(
    group: list[Point], task: DigitsTask, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Trains the networks of a group, or their linearisations, and measures them."""
    config, model = group[0].config, networks.build(group[0].config)
    linearized = config.learner == "linearized"
    alpha = float("inf") if linearized else config.output_scale
    own = functools.partial(network_params, output_scale=alpha)
    names = () if linearized else config.measures  # a linearisation's kernel stays as it is
    _, history = networks.train(
        group,
        task,
        models.scaled(model, alpha),
        [rate_of(point.config) for point in group],
        training.softmax_cross_entropy,
        directory,
        progress,
        FROZEN,
        training.Measuring(names, config.measured_examples, model.apply, network=own),
    )
    outcomes = []
    for replica in range(len(group)):
        rows = networks.rows_of(history, replica)
        if replica in history.failures:
            outcomes.append(Outcome({}, rows, "failed", history.failures[replica]))
            continue
        right = history.outcomes
        kept = None if right is None else Outcomes(right[replica])
        outcome = Outcome(networks.at_end(rows), rows, outcomes=kept)
        outcome = with_last_measures(outcome, history.measured)
        outcomes.append(outcome._replace(metrics=_with_means(outcome.metrics)))
    return outcomes


def run(
    group: list[Point],
    data: dict[str, DigitsTask],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Trains a group's points as replicas, or solves for a single one exactly."""
    task = tasks.task_of(group[0], data)
    if group[0].config.learner == "ntk_finite":
        outcomes = [_solve(group[0], task, directory / SCRATCH)]
    else:
        outcomes = _train(group, task, directory, progress)
    targets = task.test.targets
    sizes = {"num_test": len(targets), "chance": best_constant_accuracy(targets)}
    outcomes = [outcome._replace(metrics=outcome.metrics | sizes) for outcome in outcomes]
    return with_test(outcomes, task.test)


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    varying=lambda config: () if config.learner == "ntk_finite" else ("seed",),
    in_parts=True,
)
