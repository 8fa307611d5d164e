"""How the share of active neurons changes while a network is trained.

Karp et al. (NeurIPS 2021), figure 2 (thesis figure 3.2): for each ReLU layer, the fraction of its
outputs that are not zero for an example, averaged over the examples, against the epoch.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsa_jax import parallel, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.activation_sparsity.report import make_report
from lsa_jax.experiments.lsa.noise_curves import experiment, tasks
from lsa_jax.experiments.lsa.noise_curves.learners import Trained, trained_network
from lsa_jax.experiments.lsa.noise_curves.tasks import ImageTask
from lsa_jax.models.model import Model, accepted
from lsa_jax.sweep.experiment import Experiment, Outcome, with_test
from lsa_jax.sweep.points import Point


def active_fractions(
    model: Model,
    params: Any,
    inputs: Float[Array, "n ..."],
    counted: Float[Array, " n"] | None = None,
) -> tuple[Float[Array, "n c"], dict[str, Float[Array, " n"]]]:
    """Returns a network's outputs, and the fraction of each ReLU layer that an example activates.

    Args:
        model: a network with `activations`.
        params: its parameters.
        inputs: examples; with batch normalisation, a batch of them.
        counted: the examples that count in statistics of the batch; see `models.Model`.

    Returns:
        Outputs, and for each layer, from the input to the output, the fraction of its units with an
        output that is not zero, in [0, 1].
    """
    outputs, activations = model.activations(params, inputs, counted)
    return outputs, {
        layer: jnp.mean(a.reshape(len(a), -1) != 0, axis=1, dtype=jnp.float32)
        for layer, a in activations.items()
    }


def layer_names(model: Model, input_shape: tuple[int, ...]) -> list[str]:
    """Returns the names of a network's ReLU layers, from the input to the output.

    Raises:
        InputError: it has none.
    """
    names: list[str] = []

    def record(key: Array) -> None:
        params = model.init(key, input_shape)
        # Inside the trace, where the order in which layers were computed is still known.
        names.extend(active_fractions(model, params, jnp.zeros((1, *input_shape)))[1])

    # A model of split batches averages over their axis, which must exist; here of length 1.
    jax.eval_shape(
        jax.vmap(record, axis_name=parallel.BATCH_AXIS), jax.random.split(jax.random.key(0), 1)
    )
    if not names:
        raise InputError("the network has no ReLU layers; accepted: one with activations")
    return names


def watched(model: Model, trained: Trained) -> Trained:
    """Returns a network with its fractions as further outputs: [n, c + layers].

    Losses of the first c outputs have the same gradients as without the fractions.
    """

    def apply(
        params: Any, inputs: Float[Array, "n ..."], counted: Float[Array, " n"] | None = None
    ) -> Float[Array, "n _"]:
        outputs, fractions = active_fractions(model, trained.network(params), inputs, counted)
        if trained.model is not model:
            given = accepted(trained.model.apply, counted=counted)
            outputs = trained.model.apply(params, inputs, **given)
        return jnp.concatenate([outputs, *(f[:, None] for f in fractions.values())], axis=1)

    return trained._replace(model=trained.model._replace(apply=apply, kernel=None))


def run(
    group: list[Point],
    data: dict[str, ImageTask],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Trains a group's points as replicas and measures their activity at each evaluation."""
    config, task = group[0].config, tasks.task_of(group[0], data)
    num_classes = task.train.targets.shape[1]
    model = experiment.build_model(config, "network", num_classes)
    trained = trained_network(model, config.network)
    names = layer_names(model, tasks.input_shape(config, task))
    loss = training.LOSSES[config.network.loss]

    def fraction(layer: int) -> Callable:
        return lambda outputs, targets: outputs[:, num_classes + layer]

    metrics = {
        "accuracy": lambda outputs, targets: training.is_correct(outputs[:, :num_classes], targets)
    } | {f"active_{layer + 1}": fraction(layer) for layer in range(len(names))}
    _, history = experiment.train_group(
        group,
        task,
        watched(model, trained),
        directory,
        progress,
        loss=lambda outputs, targets: loss(outputs[:, :num_classes], targets),
        metrics=metrics,
        measuring=experiment.measuring(config, model, trained),
        start=True,
    )
    chance = {"chance": best_constant_accuracy(task.test.targets)}
    found = [experiment.training_outcome(history, config, place) for place in range(len(group))]
    outcomes = [outcome._replace(metrics=outcome.metrics | chance) for outcome in found]
    return with_test(outcomes, (task.test.images, task.test.targets))


EXPERIMENT = Experiment(
    load=tasks.load,
    run=run,
    report=make_report,
    varying=experiment.varying,
    in_parts=True,
    columns=experiment.columns,
)
