"""How the share of active neurons changes while a network is trained.

Karp et al. (NeurIPS 2021), figure 2 (thesis figure 3.2): for each ReLU layer, the fraction of its
outputs that are not zero for an example, averaged over the examples, against the epoch.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pandas as pd
from jaxtyping import Array, Float

from lsa_jax import parallel, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import experiment, tasks
from lsa_jax.experiments.lsa.noise_curves.learners import Trained, trained_network
from lsa_jax.experiments.lsa.noise_curves.tasks import ImageTask
from lsa_jax.models.model import Model, accepted
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import Claim, above_chance
from lsa_jax.reporting.curves import shades, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import value
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress, with_test


def active_fractions(
    model: Model,
    params: Any,
    inputs: Float[Array, "n ..."],
    counted: Float[Array, " n"] | None = None,
) -> tuple[Float[Array, "n c"], dict[str, Float[Array, " n"]]]:
    """Returns a network's outputs, and by ReLU layer the fraction of units that are not zero.

    Layers are in order from the input; `counted` is that of `models.Model`.
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
    """Returns a network with its fractions as further outputs: [n, c + layers]."""

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
    group: list[Point], data: dict[str, ImageTask], directory: Path, progress: Progress
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
    chance = best_constant_accuracy(task.test.targets)
    sizes = {"num_test": len(task.test.images), "chance": chance}
    found = [experiment.training_outcome(history, config, place) for place in range(len(group))]
    outcomes = [outcome._replace(metrics=outcome.metrics | sizes) for outcome in found]
    return with_test(outcomes, (task.test.images, task.test.targets))


# --- claims and report --------------------------------------------------------------------------

MEAN = "mean of the layers"
_CLASSES = 10


def make_claims(noises: Sequence[float], layers: Sequence[str]) -> list[Claim]:
    """Returns the claim for every noise, for the mean of the layers and for each layer."""
    return [
        Claim(
            item=f"change of the percentage of active neurons in training, {layer}"
            + (f", noise {noise:g}" if len(noises) > 1 else ""),
            statistic=value("change", noise=noise, layer=layer),
            below=0.0,
            conditions=(above_chance("the network", classes=_CLASSES, noise=noise, layer=layer),),
            digits=2,
        )
        for noise in noises
        for layer in (MEAN, *layers)
    ]


_PREFIX = "test_active_"

_COLUMNS = {"first": "at the start", "last": "at the end", "test_accuracy": "test accuracy"}


def _activity(done: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    """Returns one row a run, evaluation and layer: `active_percent` on the test images.

    Layers are numbered from the input, `ReLU 1` first; the mean of the layers is a layer too.
    """
    rows = files.read_histories(workdir, done, ["noise", "seed"])
    columns = [name for name in rows if name.startswith(_PREFIX)]
    percent = 100 * rows[columns].rename(columns=lambda n: f"ReLU {n.removeprefix(_PREFIX)}")
    percent[MEAN] = percent.mean(axis=1)
    # Rows without activity are epochs at which only other numbers were measured.
    stacked = percent.stack(future_stack=True).dropna().rename_axis([None, "layer"])
    of_run = rows.reindex(columns=["noise", "seed", "epoch"])
    return of_run.join(stacked.rename("active_percent").reset_index("layer"), how="inner")


def _changes(table: pd.DataFrame) -> pd.DataFrame:
    """Returns first, last and change of each layer's activity, one row a noise, layer and seed."""
    ordered = table.sort_values("epoch", kind="stable")
    found = ordered.groupby(["noise", "layer", "seed"], sort=False)["active_percent"]
    ends = found.agg(["first", "last"]).reset_index()
    return ends.assign(change=ends["last"] - ends["first"])


def _draw(table: pd.DataFrame) -> Any:
    """Draws each layer's mean over seeds against the epoch, one panel a noise level."""
    noises = table["noise"].unique()
    figure, (axes,) = subplots(1, len(noises), 5.5, 3.8)
    for axis, noise in zip(axes, noises, strict=True):
        rows = table[table["noise"] == noise]
        layers = rows["layer"].unique()
        for layer, color in zip(layers, shades(len(layers)), strict=True):
            means = rows[rows["layer"] == layer].groupby("epoch")["active_percent"].mean()
            style = {"color": "black", "linewidth": 2.5} if layer == MEAN else {"color": color}
            axis.plot(means.index, means, label=layer, **style)
        title = f"noise {noise:g}" if len(noises) > 1 else ""
        axis.set(xlabel="epoch", ylabel="active neurons (%)", title=title)
        axis.set_ylim(bottom=0)
    axes[-1].legend(frameon=False, fontsize="small")
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the table, the claims and the figure of a sweep over noise and seeds."""
    table = _activity(runs.finished, workdir)
    changes = _changes(table)
    rows = changes.merge(runs.finished.drop(columns="id"), on=["noise", "seed"])
    layers = [layer for layer in dict.fromkeys(changes["layer"]) if layer != MEAN]
    return Report(
        tables=[("Active neurons (%)", table_of_means(rows, ["noise", "layer"], _COLUMNS))],
        claims=make_claims(list(dict.fromkeys(changes["noise"])), layers),
        figures={"activation_sparsity": functools.partial(_draw, table)},
        extra_tables={"activity": table},
        runs=runs._replace(finished=rows),
        notes=["Fractions are of test images; layers are numbered from the input."],
    )


EXPERIMENT = Experiment(
    load=tasks.load,
    run=run,
    report=make_report,
    report_version=2,
    varying=experiment.varying,
    in_parts=True,
    columns=experiment.columns,
)
