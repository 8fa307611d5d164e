"""Lazy or rich of 24 networks and tasks, by one call of `lsa_jax.diagnose` each.

Claims, stated before the run: at the default budget at most a quarter of the tasks have an
undecided grade, and the interval of c is narrower than 0.2 in 20; answers that are known beforehand
are found, and networks that learned nothing are neither rich nor lazy. Of the network on digits as
its output scale grows: c falls at every step, from above 0.5 to below 0.1.
"""

import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.data import images
from lsa_jax.diagnosis import Diagnosis, diagnose
from lsa_jax.experiments.lazy_rich.collection import tasks
from lsa_jax.experiments.lazy_rich.collection.settings import (
    CALIBRATION,
    COLLECTION,
    SETTINGS,
    TASKS,
)
from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.reporting.claims import Claim, decide_all, enough
from lsa_jax.reporting.curves import subplots
from lsa_jax.reporting.grades import FOLLOWS, LEAVES
from lsa_jax.reporting.machine import duration
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.sweep.experiment import Experiment, Outcome, Progress
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point

_SIDE = 32  # of photographs, in pixels
_NEITHER = ("rich", "lazy")


def load(points: list[Point], data_dir: Path | None) -> dict[str, images.ImageSet]:
    """Returns the image sets of a sweep by source."""
    found = {}
    for point in points:
        source = point.config.data.dataset
        if source == "folder":
            folder = point.config.data.folder
            found[source] = images.load_folder(folder, data_dir, size=_SIDE)
        elif source != "none" and source not in found:
            found[source] = images.load(source, data_dir)
    return found


def run(
    group: list[Point], data: dict[str, images.ImageSet], directory: Path, progress: Progress
) -> list[Outcome]:
    """Diagnoses the network of one point."""
    del directory
    (point,) = group
    config, task = point.config, TASKS[point.config.task]
    x, y = tasks.examples(task.examples, data, task.source, config.num_images)
    model = tasks.network(task, len(np.unique(y)) if y.dtype.kind == "i" else 1)
    found = diagnose(
        model,
        x,
        y,
        minutes=config.minutes,
        optimizer=tasks.optimizer(model, x.shape[1:]),
        progress=False,
        **{name: config[name] for name in ("seeds", "folds", "examples", "epochs")},
    )
    progress(1.0)
    return [Outcome(_row(found), found.course.to_dict("records"))]


def _row(found: Diagnosis) -> dict[str, Any]:
    """Returns the results of a task: numbers, intervals and grades of the questions, the answer."""
    row: dict[str, Any] = {"answer": found.word, "margin": found.answer.margin}
    for one in found.answer.grades:
        row |= {one.question: one.number, f"{one.question}_grade": one.words[0]}
        row |= {f"{one.question}_low": one.low, f"{one.question}_high": one.high}
    networks = found.rows[found.rows["learner"] == "network"]
    row["train_score"] = float(networks["train_score"].mean())
    row["notes"] = "; ".join(found.answer.notes)
    return row | found.sizes._asdict()


# --- claims -------------------------------------------------------------------------------------


def _is_right(row: pd.Series) -> bool:
    """Whether a task's answer is the expected one."""
    expected = TASKS[row["task"]].expected
    if expected == "neither":
        return row["answer"] not in _NEITHER
    return expected in (row["answer"], row["dynamics_grade"])


def _is_decided(row: pd.Series) -> bool:
    grades = [row.get(f"{name}_grade") for name in ("dynamics", "features", "gain")]
    return all(isinstance(grade, str) and grade != "undecided" for grade in grades)


def _is_narrow(row: pd.Series) -> bool:
    return row["dynamics_high"] - row["dynamics_low"] < 0.2


def _holding(holds: Callable[[pd.Series], bool], names: Collection[str]) -> Statistic:
    """Returns the statistic of whether tasks hold, 1 or 0 each, without an interval."""

    def statistic(runs: Runs) -> Sample:
        own = runs.where(task=tuple(names))
        rows = own.finished.set_index("task", drop=False)
        values = rows.apply(holds, axis=1).astype(float) if len(rows) else pd.Series(dtype=float)
        return Sample(values, exact=True, lost=own.lost("margin"))

    return statistic


def _count(holds: Callable[[pd.Series], bool]) -> Statistic:
    """Returns the statistic of how many tasks of the collection hold."""
    each = _holding(holds, COLLECTION)

    def statistic(runs: Runs) -> Sample:
        found = each(runs)
        total = [found.values.sum()] if len(found.values) else []
        return found._replace(values=pd.Series(total, dtype=float))

    return statistic


def _end(column: str, task: str) -> Statistic:
    """Returns the statistic of a number of one task, such as an end of an interval."""

    def statistic(runs: Runs) -> Sample:
        own = runs.where(task=task)
        return Sample(own.finished[column].astype(float), exact=True, lost=own.lost(column))

    return statistic


def _falls(runs: Runs) -> Sample:
    """Returns of each step of the output scale whether c falls."""
    own = runs.where(task=tuple(CALIBRATION.values()))
    found = own.finished.set_index("task")["dynamics"].astype(float)
    steps = found.reindex(list(CALIBRATION.values())).dropna().diff().dropna()
    return Sample((steps < 0).astype(float), exact=True, lost=own.lost("dynamics"))


def make_claims() -> list[Claim]:
    """Returns the claims on the collection and on c by output scale."""
    total, every = len(COLLECTION), [name for name, task in COLLECTION.items() if task.expected]
    all_of_them = (enough("task", total, f"all {total} tasks", task=tuple(COLLECTION)),)
    known = [name for name in every if COLLECTION[name].expected != "neither"]
    nothing = [name for name in every if COLLECTION[name].expected == "neither"]
    decided, narrow = -(-3 * total // 4), -(-5 * total // 6)
    least, *_, most = CALIBRATION.values()
    return [
        Claim(
            item=f"tasks of {total} without an undecided grade",
            paper=f"at least {decided}",
            statistic=_count(_is_decided),
            above=decided - 0.5,
            conditions=all_of_them,
        ),
        Claim(
            item=f"tasks of {total} with an interval of c narrower than 0.2",
            paper=f"at least {narrow}",
            statistic=_count(_is_narrow),
            above=narrow - 0.5,
            conditions=all_of_them,
        ),
        Claim(
            item="the answer is the one that was known beforehand",
            statistic=_holding(_is_right, known),
            every=True,
        ),
        Claim(
            item="a network that learned nothing is neither rich nor lazy",
            statistic=_holding(_is_right, nothing),
            every=True,
        ),
        Claim(
            item="lower end of c at the smallest output scale",
            statistic=_end("dynamics_low", least),
            above=LEAVES,
        ),
        Claim(
            item="upper end of c at the largest output scale",
            statistic=_end("dynamics_high", most),
            below=FOLLOWS,
        ),
        Claim(item="c falls as the output scale grows", statistic=_falls, every=True),
    ]


# --- report -------------------------------------------------------------------------------------

_NETWORKS = {"mlp": "MLP", "cnn": "CNN", "resnet": "ResNet", "transformer": "Transformer"}
_EXPECTED = {"neither": "neither", "follows": "follows", "leaves": "does not follow"}


def _network(name: str) -> str:
    """Returns a task's network in words."""
    task = TASKS[name]
    words = [_NETWORKS[task.network]]
    words += [LABELS[task.parameterization]] if task.network in ("mlp", "cnn") else []
    words += [] if task.output_scale is None else [f"alpha {task.output_scale:g}"]
    return ", ".join(words)


def _table(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the answers, a row a task."""

    def cell(row: pd.Series, question: str, form: str) -> str:
        ends = f"({row[f'{question}_low']:{form}} to {row[f'{question}_high']:{form}})"
        return f"{row[question]:{form}} {ends}"

    return pd.DataFrame(
        {
            "data": TASKS[row["task"]].examples,
            "network": _network(row["task"]),
            "expected": _EXPECTED.get(TASKS[row["task"]].expected, TASKS[row["task"]].expected),
            "c": cell(row, "dynamics", ".2f"),
            "features (points)": cell(row, "features", "+.1f"),
            "gain (points)": cell(row, "gain", "+.1f"),
            "answer": row["answer"],
            "took": duration(row["seconds"]),
        }
        for _, row in rows.iterrows()
    )


def draw_answers(rows: pd.DataFrame) -> Any:
    """Draws c of each task with its 95 % interval, and the two cut-offs."""
    figure, ((axis,),) = subplots(1, 1, 7, 0.25 * len(rows) + 1.2)
    _draw_c(axis, rows, range(len(rows)), horizontal=True)
    names = [f"{TASKS[name].examples}: {_network(name)}" for name in rows["task"]]
    axis.set_yticks(range(len(rows)), names, fontsize=7)
    axis.set(xlabel="c", xlim=(0, None))
    axis.invert_yaxis()
    return figure


def draw_calibration(rows: pd.DataFrame) -> Any:
    """Draws c on digits against the output scale, with 95 % intervals over seeds."""
    own = rows.set_index("task").reindex(list(CALIBRATION.values()))
    figure, ((axis,),) = subplots(1, 1, 4.5, 3.2)
    _draw_c(axis, own, list(CALIBRATION), horizontal=False)
    axis.set(xscale="log", xlabel="output scale alpha", ylabel="c", ylim=(0, None))
    return figure


def _draw_c(axis: Any, rows: pd.DataFrame, places: Any, *, horizontal: bool) -> None:
    c = rows["dynamics"].to_numpy(float)
    reach = [c - rows["dynamics_low"].to_numpy(float), rows["dynamics_high"].to_numpy(float) - c]
    given = (c, places) if horizontal else (places, c)
    axis.errorbar(*given, **{"xerr" if horizontal else "yerr": reach}, fmt="o", capsize=3)
    for cut in (FOLLOWS, LEAVES):
        (axis.axvline if horizontal else axis.axhline)(cut, color="0.6", lw=1, ls="--")


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the table of answers, claims and figures."""
    del workdir  # everything is in the results
    runs = Runs.of(SETTINGS.sweep(config), results)
    rows = runs.finished
    own = rows[rows["task"].isin(list(COLLECTION))]
    figures = {"answers": functools.partial(draw_answers, own)}
    if set(CALIBRATION.values()) <= {*rows["task"]}:
        figures["calibration"] = functools.partial(draw_calibration, rows)
    return Report(
        title=config.title,
        tables=[("Answers", _table(own))],
        claims=decide_all(make_claims(), runs),
        figures=figures,
        notes=[
            f"Budget of a task: {config.minutes:g} minutes. Expected: a word, or whether the "
            "network follows its linearisation; neither means neither rich nor lazy. Intervals "
            "are of 95 %, over seeds, and of differences over test examples too."
        ],
    )


EXPERIMENT = Experiment(load=load, run=run, report=make_report)
