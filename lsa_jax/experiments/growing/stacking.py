"""Growing in stages: always a copy of the last block on top, or what LAG@k chooses.

Source: Karp (thesis, 2024), section 5.4.2 and appendix C.1.3.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
import numpy as np

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.growing.tasks import GrowingTask, first_state, fresh_params, make_task
from lsa_jax.experiments.growing.text import Text
from lsa_jax.sweep.experiment import Outcome, with_course
from lsa_jax.sweep.points import Point
from lsa_jax.training.growth import Operator, search_space, stack_last
from lsa_jax.training.lag import grow_all, grow_and_select
from lsa_jax.training.measuring import Cost, Measuring
from lsa_jax.training.steps import NetworkState, train_one


class _Stage(NamedTuple):
    """A stage's network after its steps, its losses, and its measures since the stage began."""

    state: NetworkState
    rows: list[dict[str, float]]
    measured: list[dict[str, float]]
    cost: Cost | None


def stage_operators(config: ml_collections.ConfigDict, stage: int) -> list[Operator]:
    """Returns the copying operators among which adaptive stacking chooses.

    Args:
        config: the point's.
        stage: 1 for the first growth.
    """
    layers = config.layers + (stage - 1) * config.added
    indices = tuple(range(0, layers - config.added + 1, config.index_strides[stage - 1]))
    return search_space(
        layers,
        config.added,
        indices=indices,
        block_sizes=tuple(config.sweep.block_size),
        sources=("copy",),
    )


def _measured(config: ml_collections.ConfigDict, start: int, stop: int) -> np.ndarray:
    """Returns where a stage's loss is measured: every `eval_every` steps, and at the end."""
    return np.append(np.arange(start, stop, config.eval_every), stop)


def _train_stage(
    config: ml_collections.ConfigDict,
    task: GrowingTask,
    state: NetworkState,
    span: tuple[int, int],
    directory: Path,
) -> _Stage:
    """Trains one network for a stage's steps."""
    start, stop = span
    steps = _measured(config, start, stop)
    found = train_one(
        task.problem,
        state,
        config.batch_size,
        start=start,
        stop=stop,
        measured=steps,
        segment=config.checkpoint_every,
        directory=directory,
        measuring=Measuring(config.measures),
    )
    if not np.isfinite(found.losses).all():
        raise NumericalError(
            f"the loss was not finite between steps {start} and {stop}; lower "
            "config.optimizer.learning_rate"
        )
    rows = [
        {"step": step, "loss": loss}
        for step, loss in zip(steps.tolist(), found.losses.tolist(), strict=True)
    ]
    measured = [
        row | {"step": start + row["step"]}
        for row in (found.course.rows_of(0) if found.course else [])
    ]
    return _Stage(found.states, rows, measured, found.cost)


def _begin_stage(
    config: ml_collections.ConfigDict,
    task: GrowingTask,
    state: NetworkState,
    stage: int,
    start: int,
    directory: Path,
) -> tuple[NetworkState, Operator, int]:
    """Grows; returns the deeper network, how it was chosen, and the steps that it has taken."""
    layers = config.layers + (stage - 1) * config.added
    fresh = fresh_params(task, layers + config.added)
    if config.strategy == "last":
        operator = stack_last(layers, config.added)
        grown = grow_all(state, fresh, task.problem.optimizer, [operator])
        return jax.tree.map(lambda a: a[0], grown), operator, 0
    chosen = grow_and_select(
        task.problem,
        state,
        fresh,
        stage_operators(config, stage),
        steps=config.lag_steps,
        first_step=start,
        window=config.lag_window,
        placement=task.placement,
        checkpoint_every=config.checkpoint_every,
        directory=directory,
    )
    return chosen.state, chosen.operator, config.lag_steps


def _stack(
    config: ml_collections.ConfigDict,
    task: GrowingTask,
    first: _Stage,
    directory: Path,
    progress: Callable[[float], None],
) -> Outcome:
    """Goes through all stages after the first one."""
    done = first
    history, measured = [row | {"stage": 0} for row in first.rows], [*first.measured]
    start, chosen, extra = config.stage_steps[0], [], 0
    for stage, steps in enumerate(config.stage_steps[1:], start=1):
        place = directory / f"stage_{stage:02d}"
        state, operator, taken = _begin_stage(config, task, done.state, stage, start, place / "lag")
        extra += taken * len(stage_operators(config, stage)) if taken else 0
        span = start + taken, start + steps
        done = _train_stage(config, task, state, span, place / "trained")
        history += [row | {"stage": stage} for row in done.rows]
        measured += done.measured
        chosen.append(operator.name)
        start += steps
        progress(stage / (len(config.stage_steps) - 1))
    counted_from = start - config.final_share * config.stage_steps[-1]
    last = [r["loss"] for r in done.rows if r["step"] >= counted_from]
    metrics = {
        "final_loss": float(np.mean(last)),
        "chosen": "; ".join(chosen),
        "steps_spent": start + extra - (config.lag_steps * len(chosen) if extra else 0),
    }
    return with_course(Outcome(metrics, history), measured, done.cost)


def run_stacking(
    group: list[Point], text: Text, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Trains the first stage once and goes on from it by each point's strategy."""
    config = group[0].config
    task = make_task(config, text)
    state = first_state(task, config.layers)
    span = 0, config.stage_steps[0]
    first = _train_stage(config, task, state, span, directory / "stage_00")
    outcomes: list[Outcome] = []
    for place, point in enumerate(group):
        where = directory / point.config.strategy
        outcomes.append(
            _stack(
                point.config,
                task,
                first,
                where,
                lambda fraction: progress((place + fraction) / len(group)),  # noqa: B023
            )
        )
    return outcomes
