"""Lazy or rich of 24 networks and tasks, by one call of `lsa_jax.diagnose` each.

Claims were stated before the run: grades and intervals at the default budget, answers that are
known beforehand, and c falling at every step of the output scale.
"""

import functools
from collections.abc import Callable, Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.data import images
from lsa_jax.diagnosis import Diagnosis, diagnose
from lsa_jax.experiments.lazy_rich.collection import tasks
from lsa_jax.experiments.lazy_rich.collection.settings import CALIBRATION, COLLECTION, TASKS
from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.reporting.claims import Claim, enough
from lsa_jax.reporting.curves import subplots
from lsa_jax.reporting.grades import FOLLOWS, LEAVES
from lsa_jax.reporting.machine import duration
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import computed
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress

_SIDE = 32  # of photographs, in pixels
_ENDS = ("", "_low", "_high")  # of the columns with a number and its interval


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
    (point,) = group
    config, task = point.config, TASKS[point.config.task]
    x, y = tasks.examples(task.examples, data, task.source, config.num_images)
    model = tasks.network(task, len(np.unique(y)) if y.dtype.kind == "i" else 1)
    found = diagnose(
        model,
        x,
        y,
        minutes=config.minutes,
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
    column = "train_r2" if "train_r2" in networks else "train_accuracy"
    row["train_score"] = float(networks[column].mean())
    row["notes"] = "; ".join(found.answer.notes)
    return row | found.sizes._asdict()


# --- claims -------------------------------------------------------------------------------------


def _is_right(row: pd.Series) -> bool:
    """Whether a task's answer is the expected one."""
    expected = TASKS[row["task"]].expected
    if expected == "neither":
        return row["answer"] not in ("rich", "lazy")
    return expected in (row["answer"], row.get("dynamics_grade"))


def _is_decided(row: pd.Series) -> bool:
    grades = [row.get(f"{name}_grade") for name in ("dynamics", "features", "gain")]
    return all(isinstance(grade, str) and grade != "undecided" for grade in grades)


def _is_narrow(row: pd.Series) -> bool:
    return row.get("dynamics_high", np.nan) - row.get("dynamics_low", np.nan) < 0.2


def _falls(rows: pd.DataFrame) -> pd.Series:
    """Returns of each step of the output scale whether c falls."""
    found = rows.set_index("task")["dynamics"].astype(float)
    return found.reindex([*CALIBRATION.values()]).dropna().diff().dropna() < 0


def _of(
    names: Iterable[str],
    compute: Callable[[pd.DataFrame], pd.Series],
    column: str = "margin",
) -> Statistic:
    """Returns the statistic of numbers of some tasks, which have no interval."""
    return computed(compute, column, exact=True, task=tuple(names))


def _each(number: Callable[[pd.Series], float]) -> Callable[[pd.DataFrame], pd.Series]:
    return lambda rows: rows.apply(number, axis=1)


def _count(holds: Callable[[pd.Series], bool]) -> Statistic:
    """Returns the statistic of the number of tasks of the collection that hold."""
    return _of(COLLECTION, lambda rows: pd.Series([rows.apply(holds, axis=1).sum()]))


def make_claims() -> list[Claim]:
    """Returns the claims on the collection and on c by output scale."""
    nothing = [name for name, task in COLLECTION.items() if task.expected == "neither"]
    known = [n for n, task in COLLECTION.items() if task.expected and n not in nothing]
    least, *_, most = CALIBRATION.values()
    low, high = map(itemgetter, ("dynamics_low", "dynamics_high"))
    total = len(COLLECTION)
    item = f"tasks of {total} with "
    every = (enough("task", total, f"all {total} tasks", task=tuple(COLLECTION)),)
    decided = {"paper": "at least 18", "above": 17.5, "conditions": every}
    narrow = {"paper": "at least 20", "above": 19.5, "conditions": every}
    falls, right = _of(CALIBRATION.values(), _falls, "dynamics"), _each(_is_right)
    return [
        Claim(item + "all three grades decided", _count(_is_decided), **decided),
        Claim(item + "an interval of c narrower than 0.2", _count(_is_narrow), **narrow),
        Claim("the answer is the one known beforehand", _of(known, right), every=True),
        Claim("nothing learned: neither rich nor lazy", _of(nothing, right), every=True),
        Claim("lower end of c at alpha = 0.25", _of([least], low), above=LEAVES),
        Claim("upper end of c at alpha = 256", _of([most], high), below=FOLLOWS),
        Claim("c falls as alpha grows", falls, every=True),
    ]


# --- report -------------------------------------------------------------------------------------


def _table(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the answers, a row a task."""

    def cells(row: pd.Series) -> dict[str, str]:
        task, found = TASKS[row["task"]], {}
        alpha = "" if task.output_scale is None else f", alpha {task.output_scale:g}"
        for question, form in (("dynamics", ".2f"), ("features", "+.1f"), ("gain", "+.1f")):
            number, low, high = (row.get(question + end, np.nan) for end in _ENDS)
            interval = f"{number:{form}} ({low:{form}} to {high:{form}})"
            found[question] = f"{interval} {row.get(f'{question}_grade', '')}"
        return {
            "data": task.examples,
            "network": f"{task.network}, {LABELS[task.parameterization]}{alpha}",
            "expected": task.expected,
            "c": found["dynamics"],
            "features (points)": found["features"],
            "gain (points)": found["gain"],
            "answer": row["answer"].partition(":")[0],  # a sentence repeats the grades
            "took": duration(row["seconds"]),
        }

    return pd.DataFrame(cells(row) for _, row in rows.iterrows())


def draw_calibration(rows: pd.DataFrame) -> Any:
    """Draws c on digits against the output scale, with 95 % intervals over seeds."""
    found = rows.set_index("task").reindex(list(CALIBRATION.values()))
    c, low, high = (found[f"dynamics{end}"].astype(float) for end in _ENDS)
    figure, ((axis,),) = subplots(1, 1, 4.5, 3.2)
    axis.errorbar(list(CALIBRATION), c, yerr=[c - low, high - c], fmt="o-", capsize=3)
    for cut in (FOLLOWS, LEAVES):
        axis.axhline(cut, color="0.6", lw=1, ls="--")
    axis.set(xscale="log", xlabel="output scale alpha", ylabel="c", ylim=(0, None))
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the table of answers, claims and the figure."""
    rows = runs.finished
    drawn = set(CALIBRATION.values()) <= {*rows["task"]}
    return Report(
        tables=[("Answers", _table(rows))],
        claims=make_claims(),
        figures={"calibration": functools.partial(draw_calibration, rows)} if drawn else {},
        notes=[
            f"Budget of a task in minutes: {config.minutes:g}. Expected: the word, or that the "
            "network follows or leaves its linearisation, or neither rich nor lazy. Intervals "
            "are of 95 %, over seeds, and of differences over test examples too."
        ],
    )


EXPERIMENT = Experiment(load=load, run=run, report=make_report)
