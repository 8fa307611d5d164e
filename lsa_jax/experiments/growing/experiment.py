"""Which way to grow a Transformer in depth is best, and how early the loss tells.

Karp (thesis, 2024), chapter 5: a shallow network is trained once a seed; every growth operator then
makes a deeper one of it, and all of these are trained on the same text in the same order. Or it
grows in stages, always by its last block or by what LAG@k chooses (`stacking`).
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Float, Int

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.growing import downstream, measures
from lsa_jax.experiments.growing.families import DOWNSTREAM, NUM_ITEMS
from lsa_jax.experiments.growing.report import make_report
from lsa_jax.experiments.growing.settings import AXES
from lsa_jax.experiments.growing.stacking import run_stacking
from lsa_jax.experiments.growing.tasks import (
    GrowingTask,
    Material,
    first_state,
    fresh_params,
    load,
    make_task,
)
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, with_course, with_settings
from lsa_jax.sweep.points import Point, group_points
from lsa_jax.training.course import Measuring
from lsa_jax.training.growth import Operator, grow_all
from lsa_jax.training.steps import NetworkState, Part, train_one, train_parts

# Settings in which the points of a group may differ: they share the shallow network.
_VARYING = ("index", "block_size", "source", "strategy")


def groups(points: list[Point]) -> list[list[Point]]:
    """Puts the operators, or strategies, of a network, schedule and seed together."""
    return group_points(points, lambda config: _VARYING)


def operator_of(config: ml_collections.ConfigDict) -> Operator:
    """Returns a point's operator."""
    return Operator(config.index, config.block_size, config.source)


def measured_steps(config: ml_collections.ConfigDict) -> Int[np.ndarray, " evaluations"]:
    """Returns after how many steps of growing the loss is measured.

    Densely first and in the window by which LAG decides, now and then later, and after the last.
    """
    dense = np.arange(0, config.dense_steps + 1, config.dense_every)
    later = np.arange(0, config.grow_steps, config.eval_every)
    first = max(config.lag_steps - config.lag_window, 0)
    window = np.arange(config.lag_steps, first, -config.dense_every)
    ends = [config.grow_steps, config.lag_steps]
    return np.unique(np.concatenate([dense, later[later > config.dense_steps], window, ends]))


def train_base(
    config: ml_collections.ConfigDict,
    task: GrowingTask,
    directory: Path,
    steps: int,
    progress: Callable[[float], None],
) -> tuple[NetworkState, float]:
    """Trains the shallow network, its batches dealt out over all devices.

    Returns:
        Its state and its validation loss.

    Raises:
        NumericalError: that is not finite.
    """
    found = train_one(
        task.problem,
        first_state(task, config.layers),
        config.batch_size,
        start=0,
        stop=steps,
        measured=np.array([steps]),
        segment=config.checkpoint_every,
        directory=directory,
        progress=progress,
    )
    if not np.isfinite(found.losses[-1]):
        raise NumericalError(
            f"the shallow network's loss after {steps} steps is not finite; lower "
            "config.optimizer.learning_rate"
        )
    return found.states, float(found.losses[-1])


def _outcome(
    config: ml_collections.ConfigDict,
    base_loss: float,
    steps: Int[np.ndarray, " evaluations"],
    losses: Float[np.ndarray, " evaluations"],
) -> Outcome:
    """Returns what came out of one operator."""
    history = [
        {"step": step, "loss": loss}
        for step, loss in zip(steps.tolist(), losses.tolist(), strict=True)
    ]
    if not np.isfinite(losses).all():
        first = steps[np.flatnonzero(~np.isfinite(losses))[0]]
        message = f"the loss was not finite {first} steps after growing"
        return Outcome({}, history, "failed", f"{message}; lower config.optimizer.learning_rate")
    table = losses[:, None]
    metrics = {
        "base_loss": base_loss,
        "initial_loss": float(losses[0]),
        "lag_loss": measures.lag_losses(table, steps, config.lag_steps, config.lag_window)[0],
        "final_loss": measures.final_losses(table, steps, config.final_share)[0],
    }
    return Outcome(metrics, history)


def _ask(
    config: ml_collections.ConfigDict, task: GrowingTask, material: Material, part: Part
) -> list[dict[str, float]]:
    """Returns each network's accuracy in every task, by the name of its column."""
    found: list[dict[str, float]] = [{} for _ in range(part.stop - part.start)]
    if not material.downstream:
        return found
    complete = downstream.make_completer(task.model, config.downstream.answer_tokens)
    for place, row in enumerate(found):
        params = jax.tree.map(
            lambda leaf, place=place: jnp.asarray(leaf[place]), part.trained.states.params
        )
        for asked in material.downstream:
            share = downstream.accuracy(asked, complete, params, config.batch_size)
            row[f"{DOWNSTREAM}{asked.name}"] = share
            row[f"{NUM_ITEMS}{asked.name}"] = len(asked.answers)
    return found


def _with_downstream(outcome: Outcome, found: dict[str, float]) -> Outcome:
    if outcome.status == "failed":
        return outcome
    return outcome._replace(metrics=outcome.metrics | found)


def _run_operators(
    group: list[Point], material: Material, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Trains the shallow network, grows it in every way and trains what came out."""
    config = group[0].config
    task = make_task(config, material.text)
    work = len(group) * config.grow_steps + config.base_steps
    share = config.base_steps / work
    base, base_loss = train_base(
        config, task, directory / "base", config.base_steps, lambda f: progress(share * f)
    )
    operators = [operator_of(point.config) for point in group]
    fresh = fresh_params(task, config.layers + config.added)
    steps = measured_steps(config)
    parts = train_parts(
        task.problem,
        lambda start, stop: grow_all(base, fresh, task.problem.optimizer, operators[start:stop]),
        len(operators),
        task.placement,
        start=config.base_steps,
        stop=config.base_steps + config.grow_steps,
        measured=config.base_steps + steps,
        segment=config.checkpoint_every,
        directory=directory / "grown",
        measuring=Measuring(config.measures),
        progress=lambda fraction: progress(share + (1 - share) * fraction),
    )
    asked = functools.partial(_ask, config, task, material)
    outcomes = []
    for part in parts:
        losses, course = part.trained.losses, part.trained.course
        for place, found in enumerate(asked(part)):
            outcome = _outcome(config, base_loss, steps, losses[:, place])
            rows = course.rows_of(place) if course else []
            outcome = with_course(outcome, rows, part.trained.cost)
            outcomes.append(_with_downstream(outcome, found))
        del part  # its networks, before memory is taken for the next ones
    return outcomes


def run(
    group: list[Point],
    data: dict[str, Material],
    directory: Path,
    progress: Callable[[float], None],
) -> list[Outcome]:
    """Answers the group's question; checkpoints lie in the group's scratch folder."""
    config = group[0].config
    material, scratch = data[config.model.kind], directory / SCRATCH
    if config.question == "stacking":
        outcomes = run_stacking(group, material.text, scratch, progress)
    else:
        outcomes = _run_operators(group, material, scratch, progress)
    return with_settings(group, outcomes, _settings_of)


def _settings_of(config: ml_collections.ConfigDict) -> dict[str, Any]:
    return {name.split(".")[-1]: config[name] for name in AXES[config.question]}


EXPERIMENT = Experiment(load=load, groups=groups, run=run, report=make_report)
