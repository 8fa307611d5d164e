"""Which way to grow a Transformer in depth is best, and how early the loss shows it.

Karp (thesis, 2024), chapter 5: a shallow network is trained once a seed; every growth operator then
makes a deeper one of it, and all of these are trained on the same text in the same order. Or it
grows in stages, always by a copy of its last block or by the choice of LAG@k (section 5.4.2 and
appendix C.1.3). Runs keep their answers to downstream items.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.growing import downstream, families
from lsa_jax.experiments.growing.report import make_report
from lsa_jax.experiments.growing.settings import AXES
from lsa_jax.experiments.growing.tasks import (
    GrowingTask,
    Material,
    first_state,
    fresh_params,
    load,
    make_task,
)
from lsa_jax.parallel import layout_of
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, Progress, with_course, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import Measuring
from lsa_jax.training.growth import Operator, grow_all, grow_and_select, search_space, stack_last
from lsa_jax.training.steps import NetworkState, Trained, train_parts, train_steps

_Rows = list[dict[str, Any]]


def _train(
    task: GrowingTask,
    state: NetworkState,
    start: int,
    measured: Int[np.ndarray, " evaluations"],
    directory: Path,
    **options: Any,
) -> Trained:
    """Trains one network, its batches dealt out over all devices, to the last measured step.

    Raises:
        NumericalError: a loss is not finite.
    """
    config, stop = task.config, int(measured[-1])
    options |= {"segment": config.checkpoint_every, "directory": directory}
    spans = {"start": start, "stop": stop, "measured": measured}
    single = jax.tree.map(lambda a: np.asarray(a)[None], state)
    layout = layout_of(1, config.batch_size)
    found = train_steps(task.problem, single, layout, **spans, **options)
    if not np.isfinite(found.losses).all():
        raise NumericalError(
            f"the loss was not finite between steps {start} and {stop}; lower "
            "config.optimizer.learning_rate"
        )
    one = jax.tree.map(lambda a: a[0], found.states)
    return found._replace(states=one, losses=found.losses[:, 0])


def measured_steps(config: Config) -> Int[np.ndarray, " evaluations"]:
    """Returns after how many steps of growing the loss is measured.

    Densely first and in the window by which LAG decides, now and then later, and after the last.
    """
    dense = np.arange(0, config.dense_steps + 1, config.dense_every)
    later = np.arange(0, config.grow_steps, config.eval_every)
    first = max(config.lag_steps - config.lag_window, 0)
    window = np.arange(config.lag_steps, first, -config.dense_every)
    ends = [config.grow_steps, config.lag_steps]
    return np.unique(np.concatenate([dense, later[later > config.dense_steps], window, ends]))


def _rows(steps: np.ndarray, losses: np.ndarray, **columns: int) -> _Rows:
    pairs = zip(steps.tolist(), losses.tolist(), strict=True)
    return [{"step": step, "loss": loss} | columns for step, loss in pairs]


def _outcome(
    config: Config,
    base_loss: float,
    steps: Int[np.ndarray, " evaluations"],
    losses: Float[np.ndarray, " evaluations"],
) -> Outcome:
    """Returns the outcome of one operator, but for its answers."""
    lost = steps[~np.isfinite(losses)]
    if len(lost):
        message = f"the loss was not finite {lost[0]} steps after growing"
        message += "; lower config.optimizer.learning_rate"
        return Outcome({}, _rows(steps, losses), "failed", message)
    table = losses[:, None]
    metrics = {
        "base_loss": base_loss,
        "initial_loss": float(losses[0]),
        "lag_loss": families.lag_losses(table, steps, config.lag_steps, config.lag_window)[0],
        "final_loss": families.final_losses(table, steps, config.final_share)[0],
    }
    return Outcome(metrics, _rows(steps, losses))


def _with_answers(
    outcome: Outcome, tasks: tuple[downstream.Task, ...], answer: Callable
) -> Outcome:
    """Returns an outcome with the accuracy in every task, and `answer(task)`: the right items."""
    metrics, right = dict(outcome.metrics), []
    for task in tasks:
        right.append(answer(task))
        metrics[f"{families.DOWNSTREAM}{task.name}"] = float(np.mean(right[-1]))
        metrics[f"{families.NUM_ITEMS}{task.name}"] = len(task.answers)
    return outcome._replace(metrics=metrics, outcomes=Outcomes(np.concatenate(right)))


def _run_operators(
    group: list[Point], material: Material, directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains the shallow network, grows it in every way and trains the grown networks."""
    config = group[0].config
    task = make_task(config, material.text)
    share = config.base_steps / (len(group) * config.grow_steps + config.base_steps)
    base = _train(
        task,
        first_state(task, config.layers),
        0,
        np.array([config.base_steps]),
        directory / "base",
        progress=lambda fraction: progress(share * fraction),
    )
    operators = [Operator(p.config.index, p.config.block_size, p.config.source) for p in group]
    fresh = fresh_params(task, config.layers + config.added)
    steps, optimizer = measured_steps(config), task.problem.optimizer
    parts = train_parts(
        task.problem,
        lambda start, stop: grow_all(base.states, fresh, optimizer, operators[start:stop]),
        task.layouts(len(operators)),
        start=config.base_steps,
        stop=config.base_steps + config.grow_steps,
        measured=config.base_steps + steps,
        segment=config.checkpoint_every,
        directory=directory / "grown",
        measuring=Measuring(config.measures),
        progress=lambda fraction: progress(share + (1 - share) * fraction),
    )
    complete = downstream.make_completer(task.model, config.downstream.answer_tokens)
    outcomes = []
    for _, trained in parts:
        losses, course = trained.losses, trained.course
        for place in range(losses.shape[1]):
            outcome = _outcome(config, float(base.losses[-1]), steps, losses[:, place])
            rows = course.rows_of(place) if course else []
            outcome = with_course(outcome, rows, trained.cost)
            if material.downstream and outcome.status == "ok":
                params = trained.states.params
                own = jax.tree.map(lambda leaf, i=place: jnp.asarray(leaf[i]), params)
                answer = partial(downstream.answers_right, complete, own, config.batch_size)
                outcome = _with_answers(outcome, material.downstream, answer)
            outcomes.append(outcome)
        del trained  # its networks, before memory is taken for the next ones
    return with_test(outcomes, [task.tokens for task in material.downstream])


def stage_operators(config: Config, stage: int) -> list[Operator]:
    """Returns the operators among which adaptive stacking chooses in a later stage, from 1 on."""
    layers = config.layers + (stage - 1) * config.added
    indices = tuple(range(0, layers - config.added + 1, config.index_strides[stage - 1]))
    sizes = tuple(config.sweep.block_size)
    return search_space(layers, config.added, indices=indices, block_sizes=sizes, sources=("copy",))


def _begin_stage(
    task: GrowingTask, state: NetworkState, stage: int, start: int, directory: Path
) -> tuple[NetworkState, Operator, int]:
    """Grows; returns the deeper network, its operator, and the steps that it has taken."""
    config = task.config
    layers = config.layers + (stage - 1) * config.added
    fresh = fresh_params(task, layers + config.added)
    if config.strategy == "last":
        operator = stack_last(layers, config.added)
        grown = grow_all(state, fresh, task.problem.optimizer, [operator])
        return jax.tree.map(lambda a: a[0], grown), operator, 0
    operators = stage_operators(config, stage)
    chosen = grow_and_select(
        task.problem,
        state,
        fresh,
        operators,
        steps=config.lag_steps,
        first_step=start,
        window=config.lag_window,
        layouts=task.layouts(len(operators)),
        checkpoint_every=config.checkpoint_every,
        directory=directory,
    )
    return chosen.state, chosen.operator, config.lag_steps


def _train_stage(
    task: GrowingTask, state: NetworkState, start: int, stop: int, stage: int, directory: Path
) -> tuple[Trained, _Rows, _Rows]:
    """Trains one network for a stage's steps; returns rows of losses and of measures, too."""
    steps = np.append(np.arange(start, stop, task.config.eval_every), stop)
    measuring = Measuring(task.config.measures)
    found = _train(task, state, start, steps, directory, measuring=measuring)
    course = found.course.rows_of(0) if found.course else []
    measured = [row | {"step": start + row["step"]} for row in course]
    return found, _rows(steps, found.losses, stage=stage), measured


def _stack(
    task: GrowingTask, first: tuple[Trained, _Rows, _Rows], directory: Path, progress: Progress
) -> Outcome:
    """Goes through all stages after the first one."""
    (done, history, measured), chosen, extra, config = first, [], 0, task.config
    start = config.stage_steps[0]
    for stage, steps in enumerate(config.stage_steps[1:], start=1):
        place = directory / f"stage_{stage:02d}"
        state, operator, taken = _begin_stage(task, done.states, stage, start, place / "lag")
        # The steps of the chosen operator are part of the stage.
        extra += taken * (len(stage_operators(config, stage)) - 1)
        span = start + taken, start + steps
        done, rows, more = _train_stage(task, state, *span, stage, place / "trained")
        history, measured = [*history, *rows], [*measured, *more]
        chosen.append(operator.name)
        start += steps
        progress(stage / (len(config.stage_steps) - 1))
    counted_from = start - config.final_share * config.stage_steps[-1]
    metrics = {
        "final_loss": float(np.mean([row["loss"] for row in rows if row["step"] >= counted_from])),
        "chosen": "; ".join(chosen),
        "steps_spent": start + extra,
    }
    return with_course(Outcome(metrics, history), measured, done.cost)


def _run_stacking(
    group: list[Point], material: Material, directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains the first stage once and goes on from it by each point's strategy."""
    task = make_task(group[0].config, material.text)
    state, stop = first_state(task, task.config.layers), task.config.stage_steps[0]
    first = _train_stage(task, state, 0, stop, 0, directory / "stage_00")
    return [
        _stack(
            task._replace(config=point.config),
            first,
            directory / point.config.strategy,
            lambda fraction, place=place: progress((place + fraction) / len(group)),
        )
        for place, point in enumerate(group)
    ]


def run(
    group: list[Point], data: dict[str, Material], directory: Path, progress: Progress
) -> list[Outcome]:
    """Answers the group's question; checkpoints lie in the group's scratch folder."""
    config = group[0].config
    answer = _run_stacking if config.question == "stacking" else _run_operators
    return answer(group, data[config.model.kind], directory / SCRATCH, progress)


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    load=load,
    varying=("index", "block_size", "source", "strategy"),  # they share the shallow network
    columns=lambda config: {name.split(".")[-1]: config[name] for name in AXES[config.question]},
    report_version=2,
)
