"""The runs of a sweep, planned and finished, filtered together."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lsa_jax.reporting.courses import is_measure
from lsa_jax.reporting.outcomes import Outcomes

_MOST_NAMED = 3
_NOT_DRAWN = ("id", "seed", "status", "message")
# Parts of the names of columns that differ between equal computations.
_OF_THE_MACHINE = ("seconds", "gigabytes", "iterations", "residual")


class Runs(NamedTuple):
    """Runs of a sweep: the ones it asks for, and the results of the ones that finished.

    Attributes:
        planned: one row a planned run: its settings.
        finished: one row a finished run: settings, results, `seed` and `id`.
        outcomes: results on each test example, by run id; runs without kept outcomes are absent.
        fresh: whether each seed draws a test set of its own; kept outcomes override it.
    """

    planned: pd.DataFrame
    finished: pd.DataFrame
    outcomes: Mapping[str, Outcomes] = {}
    fresh: bool = False

    @classmethod
    def of(
        cls,
        planned: Sequence[Mapping[str, object]],
        results: pd.DataFrame,
        outcomes: Mapping[str, Outcomes] | None = None,
        *,
        fresh: bool = False,
    ) -> "Runs":
        """Returns the runs of a sweep from its settings and its table of results.

        Settings of every planned run: "data.noise" is the column "noise", and settings without a
        column in the results are left out. Without any, no run can be missing. Failed runs have
        another `status` than "ok".
        """
        finished = results[results["status"] == "ok"] if "status" in results else results
        rows = [{n.split(".")[-1]: _hashable(v) for n, v in p.items()} for p in planned]
        asked = pd.DataFrame(rows)
        # Results may be of several runs at once, such as fits over sizes: one row for each of them.
        asked = asked[[name for name in asked if name in results]].drop_duplicates()
        return cls(asked.reset_index(drop=True), finished, outcomes or {}, fresh)

    def where(self, **settings: object) -> "Runs":
        """Returns the runs with these settings.

        A tuple accepts each of its members, a function the values for which it is true.

        Raises:
            ValueError: neither the planned nor the finished runs have a setting of this name.
        """
        known = {*self.planned, *self.finished}
        if known and (unknown := settings.keys() - known):
            raise ValueError(f"runs have no setting {unknown.pop()!r}; they have {sorted(known)}")
        planned, finished = (_having(rows, settings) for rows in self[:2])
        return self._replace(planned=planned, finished=finished)

    def assign(self, **columns: object) -> "Runs":
        """Returns the runs with columns of the finished ones, as `DataFrame.assign` does."""
        return self._replace(finished=self.finished.assign(**columns))

    def by_seed(self, column: str, *, optional: bool = False) -> pd.Series:
        """Returns a column's finite numbers by seed, the mean where a seed has several.

        Only a table of finished runs may lack an `optional` column, or one of the measures along
        training, which are chosen in the configuration.

        Raises:
            ValueError: the finished runs lack the column.
        """
        known = optional or is_measure(column) or column in self.finished
        if len(self.finished) and not known:
            raise ValueError(f"runs have no column {column!r}; they have {sorted(self.finished)}")
        values = self.finished.reindex(columns=["seed", column]).astype(float)
        values = values[np.isfinite(values[column])]
        return values.groupby("seed")[column].mean()

    def chance(self, classes: int = 2, column: str = "chance") -> float:
        """Returns the accuracy of the best constant answer, the largest of the runs.

        It is the column, else 1 / `num_classes`, else 1 / `classes`.
        """
        rows = self.finished
        known = rows.get(column, 1 / rows.get("num_classes", pd.Series(classes, rows.index)))
        return float(known.max())

    def lost(self, column: str | None) -> str:
        """Names the planned runs without a finite number in a column; "" where there are none.

        Without a column, those are named that did not finish.
        """
        planned = self.planned[[name for name in self.planned if name in self.finished]]
        if planned.empty:
            return ""
        there = np.ones(len(self.finished), bool)
        if column is not None:
            numbers = self.finished.get(column, pd.Series(np.nan, self.finished.index))
            there = np.isfinite(numbers.astype(float).to_numpy())
        missing: list[dict[str, object]] = []
        # Learners may have settings of their own, which the others' rows leave open.
        patterns, which = np.unique(planned.notna().to_numpy(), axis=0, return_inverse=True)
        for place, known in enumerate(patterns):
            names = list(planned.columns[known])
            found = set(_tuples(self.finished, names, there))
            asked = _tuples(planned, names, which.reshape(-1) == place)
            missing += [dict(zip(names, row, strict=True)) for row in asked if row not in found]
        if not missing:
            return ""
        words = [", ".join(f"{n} {v}" for n, v in row.items()) for row in missing[:_MOST_NAMED]]
        more = len(missing) - _MOST_NAMED
        words += [f"{more} more"] if more > 0 else []
        lack = "did not finish" if column is None else f"have no {column}"
        return f"{len(missing)} of {len(planned)} runs {lack}: {'; '.join(words)}"

    def equal_seeds(self) -> bool:
        """Whether two seeds or more agree in every result: nothing random was drawn."""
        if self.finished["seed"].nunique() < 2:
            return False
        rows = self.finished
        settings = [name for name in self.planned if name != "seed"]
        drawn = [
            name
            for name, dtype in rows.dtypes.items()
            if dtype.kind in "biuf"
            and name not in (*settings, *_NOT_DRAWN)
            and not any(part in name for part in _OF_THE_MACHINE)
        ]
        place = np.zeros(len(rows), int)
        if settings:
            place = rows.groupby(settings, dropna=False).ngroup().to_numpy()
        order = np.argsort(place, kind="stable")
        starts = np.flatnonzero(np.diff(place[order], prepend=-1))
        table = rows[drawn].to_numpy(float)[order]
        least, most = (end.reduceat(table, starts) for end in (np.fmin, np.fmax))
        return not (most > least).any()


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _tuples(rows: pd.DataFrame, names: list[str], kept: np.ndarray) -> Iterator[tuple]:
    """Returns these columns of the rows to keep as tuples of Python's own numbers."""
    columns = (rows[name].to_numpy()[kept].tolist() for name in names)
    return zip(*(map(_hashable, column) for column in columns), strict=True)


def _having(rows: pd.DataFrame, settings: Mapping[str, object]) -> pd.DataFrame:
    chosen = np.ones(len(rows), bool)
    for name, value in settings.items():
        if name in rows and callable(value):
            chosen &= rows[name].map(value).to_numpy(bool)
        elif name in rows:
            chosen &= rows[name].isin(value if isinstance(value, tuple) else (value,)).to_numpy()
    return rows[chosen]
