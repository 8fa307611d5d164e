"""Statistics that claims are about: small functions that turn runs into samples.

`accuracy(learner="network")` is the accuracy of the network's runs; `minus` and `retained` combine
two statistics, paired by seed and by test example. A statistic of an experiment's own is any
function from `Runs` to `Sample`.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Float

from lsa_jax.reporting import samples
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, ScaleName, Statistic

# Stands for a denominator of 0, so that ratios are large and their intervals, too.
_LEAST = 1e-9


def value(
    column: str,
    *,
    exact: bool = False,
    scale: ScaleName = "linear",
    bounds: tuple[float, float] = (-np.inf, np.inf),
    **settings: object,
) -> Statistic:
    """Returns the statistic of a column without test examples, such as a loss or a slope."""

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**settings)
        return Sample(
            samples.SCALES[scale][0](own.by_seed(column)),
            scale=scale,
            exact=exact,
            lost=own.lost(column),
            equal=own.equal_seeds(),
            bounds=bounds,
        )

    return statistic


def computed(
    compute: Callable[[pd.DataFrame], pd.Series],
    column: str | None,
    *,
    exact: bool = False,
    examples: str | None = None,
    **settings: object,
) -> Statistic:
    """Returns the statistic of values that are computed from the finished runs.

    `compute` is called with one finished run or more and returns values by seed; `exact` ones are
    computed without sampling, so that there may be no seeds. Every planned run must have the result
    `column`; None means that it must have finished. `examples` is the column of the number of test
    examples, where the values are of test examples.
    """

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**settings)
        values = compute(own.finished) if len(own.finished) else []
        counted = examples is not None and len(own.finished) > 0
        return Sample(
            pd.Series(values, dtype=float),
            exact=exact,
            count=int(own.finished[examples].min()) if counted else None,
            lost=own.lost(column),
            equal=not exact and own.equal_seeds(),
        )

    return statistic


def holds(
    column: str,
    test: Callable[[pd.Series], pd.Series],
    *,
    exact: bool = False,
    examples: str | None = None,
    **settings: object,
) -> Statistic:
    """Returns the statistic that is 1 for runs whose number in a column passes a test, else 0.

    Runs without a finite number have none. `exact` and `examples` are those of `computed`.
    """

    def passed(rows: pd.DataFrame) -> pd.Series:
        # The column is missing where no run has it.
        numbers = rows.reindex(columns=[column])[column].astype(float)
        return test(numbers).astype(float).where(np.isfinite(numbers))

    return computed(passed, column, exact=exact, examples=examples, **settings)


def accuracy(
    column: str = "test_accuracy",
    *,
    unit: float = 100.0,
    optional: bool = False,
    examples: str = "num_test",
    **settings: object,
) -> Statistic:
    """Returns the statistic of an accuracy on test examples, in percent unless `unit` is 1.

    Kept outcomes are those of `test_accuracy`; other columns have binomial errors. Runs may lack an
    `optional` column; `examples` is the column of the number of test examples.
    """

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**settings)
        values = unit * own.by_seed(column, optional=optional)
        counts = own.finished.reindex(columns=[examples])[examples].dropna()
        count = int(counts.max()) if len(counts) else None
        known = count and len(values)
        sample = Sample(
            values,
            shared=not own.fresh,
            error=unit * samples.binomial_error(values.mean() / unit, count) if known else 0.0,
            unit=unit,
            count=count,
            lost=own.lost(column),
            equal=own.equal_seeds(),
            bounds=(0.0, unit),
        )
        return with_outcomes(sample, own) if column == "test_accuracy" else sample

    return statistic


def score(**settings: object) -> Statistic:
    """Returns the statistic of accuracies in percent, or of R^2 in percent for real targets.

    Results have the column `test_accuracy` or `test_r2`. Kept outcomes of regression are errors in
    units of the targets' standard deviation, so that R^2 is the mean of 1 - error^2.
    """

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**settings)
        if "test_r2" not in own.finished or own.finished["test_r2"].isna().all():
            return accuracy(**settings)(runs)
        percent = times(value("test_r2", bounds=(-np.inf, 1.0), **settings), 100.0)(runs)
        sample = percent._replace(shared=not own.fresh)
        return with_outcomes(sample, own, lambda errors: 1 - errors.astype(float) ** 2)

    return statistic


def slope(column: str, against: str, **settings: object) -> Statistic:
    """Returns the statistic of slopes by seed: log of a column against log of a swept setting.

    A seed counts that has positive numbers at every planned value of the setting.
    """

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**settings)
        own.by_seed(column)  # raises where there is no such column
        numbers = own.finished.reindex(columns=[column])[column].astype(float)
        own = own._replace(finished=own.finished[(numbers > 0) & np.isfinite(numbers)])
        levels, found = own.planned[against].nunique(), {}
        for seed, rows in own.finished.groupby("seed"):
            if rows[against].nunique() == levels > 1:
                found[seed] = np.polyfit(np.log(rows[against]), np.log(rows[column]), 1)[0]
        values = pd.Series(found, dtype=float)
        few = f"a slope needs two values of {against}" * (levels < 2)
        return Sample(values, lost=own.lost(column) or few, equal=own.equal_seeds())

    return statistic


def times(statistic: Statistic, factor: float, plus: float = 0.0) -> Statistic:
    """Returns a statistic times a factor, plus a number."""

    def moved(ends: tuple[float, float]) -> tuple[float, float]:
        low, high = sorted(factor * end + plus for end in ends)
        return low, high

    def scaled(runs: Runs) -> Sample:
        sample = statistic(runs)
        own = sample.ends
        return sample._replace(
            values=factor * sample.values + plus,
            examples=None if sample.examples is None else factor * sample.examples + plus,
            error=abs(factor) * sample.error,
            unit=abs(factor) * sample.unit,
            bounds=moved(sample.bounds),
            ends=None if own is None else lambda tail: moved(own(tail)),
        )

    return scaled


def over(first: Statistic, second: Statistic) -> Statistic:
    """Returns the ratio of two statistics without test examples, paired by seed."""

    def statistic(runs: Runs) -> Sample:
        one, other = first(runs), second(runs)
        if _scale_of(one, other) != "linear":
            raise ValueError("a ratio is of statistics on the linear scale; take `minus` of others")
        ratio = (one.values / other.values).dropna()
        equal, exact = one.equal and other.equal, one.exact and other.exact
        return Sample(ratio, exact=exact, lost=one.lost or other.lost, equal=equal)

    return statistic


def mean_of(statistics: Sequence[Statistic]) -> Statistic:
    """Returns the mean of statistics without test examples, by seed."""

    def statistic(runs: Runs) -> Sample:
        found = [one(runs) for one in statistics]
        values = pd.concat([sample.values for sample in found], axis=1).dropna().mean(axis=1)
        return Sample(
            values,
            scale=_scale_of(*found),
            lost=next(filter(None, (sample.lost for sample in found)), ""),
            equal=all(sample.equal for sample in found),
        )

    return statistic


def jackknife(
    seeds: Sequence[int], statistic: Callable[[list[int]], float]
) -> Float[np.ndarray, " seeds"]:
    """Returns a value a seed for a statistic of all seeds at once.

    Their mean is the statistic, and their spread gives its error as that of numbers of seeds gives
    the error of their mean: Tukey's (1958) pseudo-values, moved to the statistic itself.
    """
    seeds, count = list(seeds), len(seeds)
    found = statistic(seeds) if seeds else np.nan
    if count < 2:
        return np.full(count, found)
    without = np.array([statistic(seeds[:at] + seeds[at + 1 :]) for at in range(count)])
    return found - (count - 1) * (without - without.mean())


def highest(statistics: Sequence[Statistic]) -> Statistic:
    """Returns the largest of several means, which is below a number if all of them are.

    Either end of its interval is the largest of theirs: an intersection-union test (Berger, 1982).
    """
    return _extreme(statistics, max)


def lowest(statistics: Sequence[Statistic]) -> Statistic:
    """Returns the least of several means, which is above a number if all of them are."""
    return _extreme(statistics, min)


def _extreme(statistics: Sequence[Statistic], pick: Callable) -> Statistic:
    def statistic(runs: Runs) -> Sample:
        found = [one(runs) for one in statistics]
        _scale_of(*found)  # raises
        ran = [sample for sample in found if len(sample.values)]
        intervals = [samples.interval(sample) for sample in ran]

        def both(tail: float) -> tuple[float, float]:
            lows, highs = zip(*(one(tail) for one in intervals), strict=True)
            return float(pick(lows)), float(pick(highs))

        own = pick(ran, key=lambda sample: sample.values.mean(), default=found[0])
        lost = next(filter(None, (sample.lost for sample in found)), "")
        return own._replace(lost=lost, ends=both if len(ran) > 1 else own.ends)

    return statistic


def minus(first: Statistic, second: Statistic) -> Statistic:
    """Returns the difference of two statistics, paired by seed and, where kept, by test example."""

    def statistic(runs: Runs) -> Sample:
        one, other = first(runs), second(runs)
        seeds = one.values.index.intersection(other.values.index)
        return _combined(one, other, seeds)._replace(
            values=one.values[seeds] - other.values[seeds],
            examples=_paired(lambda a, b: a - b, one, other, seeds),
            error=float(np.hypot(one.error, other.error)),
            exact=one.exact and other.exact,
            bounds=(one.bounds[0] - other.bounds[1], one.bounds[1] - other.bounds[0]),
            ends=_mover(one, other) if one.ends or other.ends else None,
        )

    return statistic


def retained(start: Statistic, end: Statistic, *, chance: float = 0.0) -> Statistic:
    """Returns the percentage of accuracy above chance that is left: 100 (a1 - c) / (a0 - c).

    Where a0 is less than three errors above chance, the interval is Fieller's (1954).

    Args:
        start: accuracies a0 in percent.
        end: accuracies a1 in percent, on the same test examples.
        chance: accuracy c of the best constant answer, in percent; 0 gives the plain percentage.
    """

    def statistic(runs: Runs) -> Sample:
        before, after = start(runs), end(runs)
        seeds = before.values.index.intersection(after.values.index)
        a0, a1 = (one.values[seeds] - chance for one in (before, after))
        a0 = a0.mask(a0 == 0, _LEAST)
        share, level = a1 / a0, float(a0.mean()) or _LEAST

        def influence(y1: np.ndarray, y0: np.ndarray) -> np.ndarray:
            r = share.to_numpy()[:, None]
            return 100 * (r + ((y1 - chance) - r * (y0 - chance)) / a0.to_numpy()[:, None])

        error = 100 * float(np.hypot(after.error, share.mean() * before.error)) / level

        variances = [_mean_variance(sample) for sample in (after, before)] if len(seeds) else []

        def by_fieller(tail: float) -> tuple[float, float]:
            low, high = samples.fieller(float(a1.mean()), level, *variances, tail)
            return 100 * low, 100 * high

        near = len(seeds) > 0 and level < 3 * variances[1] ** 0.5
        return _combined(after, before, seeds)._replace(
            values=100 * share,
            examples=_paired(influence, after, before, seeds),
            error=error,
            unit=100 * after.unit / level if len(seeds) else 100.0,
            bounds=(-np.inf, np.inf),
            ends=by_fieller if near else None,
        )

    return statistic


def _scale_of(*combined: Sample) -> ScaleName:
    """Returns the scale of samples that are combined; raises where they have several."""
    first, *others = dict.fromkeys(sample.scale for sample in combined)
    if others:
        raise ValueError(f"statistics on the scales {first} and {others[0]} cannot be combined")
    return first


def _mean_variance(sample: Sample) -> float:
    """Returns the variance of a sample's mean, from its 95 % interval."""
    low, high = samples.ends(sample)
    return ((high - low) / (2 * scipy.stats.norm.isf(TAIL))) ** 2


def _combined(one: Sample, other: Sample, seeds: pd.Index) -> Sample:
    """Returns a sample over the common seeds with what two samples say of runs and examples."""
    counts = [sample.count for sample in (one, other) if sample.count is not None]
    return one._replace(
        scale=_scale_of(one, other),
        shared=one.shared and other.shared,
        count=min(counts, default=None),
        lost=one.lost or other.lost,
        equal=one.equal and other.equal,
        tests=tuple(np.array(one.tests)[_rows(one, seeds)]) if one.tests else (),
    )


def _rows(sample: Sample, seeds: pd.Index) -> np.ndarray:
    return sample.values.index.get_indexer(seeds)


def _paired(
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray],
    one: Sample,
    other: Sample,
    seeds: pd.Index,
) -> np.ndarray | None:
    """Combines the outcomes of two samples where both are of the same test examples by seed."""
    if one.examples is None or other.examples is None or not len(seeds):
        return None
    first, second = _rows(one, seeds), _rows(other, seeds)
    if [one.tests[i] for i in first] != [other.tests[i] for i in second]:
        return None
    return combine(one.examples[first], other.examples[second])


def with_outcomes(
    sample: Sample, runs: Runs, score: Callable[[np.ndarray], np.ndarray] = np.asarray
) -> Sample:
    """Adds the outcomes of runs where every seed has kept as many.

    Args:
        sample: of the runs, one a seed.
        runs: with their outcomes.
        score: from a run's outcomes to numbers whose mean, times the unit, is the sample's value.
    """
    rows = runs.finished
    if not runs.outcomes or rows["seed"].duplicated().any():
        return sample
    ids = rows.set_index("seed")["id"]
    kept = [runs.outcomes.get(ids[seed]) for seed in sample.values.index]
    if not kept or None in kept or len({len(one.values) for one in kept}) > 1:
        return sample
    tests = tuple(one.test for one in kept)
    return sample._replace(
        examples=sample.unit * np.stack([score(one.values) for one in kept]).astype(float),
        shared=len(set(tests)) == 1,
        tests=tests,
        count=len(kept[0].values),
    )


def _mover(one: Sample, other: Sample) -> Callable[[float], tuple[float, float]]:
    """Returns the interval of a difference from both intervals, by Zou and Donner (2008)."""
    first, second = samples.interval(one), samples.interval(other)
    m1, m2 = one.values.mean(), other.values.mean()

    def both(tail: float) -> tuple[float, float]:
        (l1, u1), (l2, u2) = first(tail), second(tail)
        return m1 - m2 - np.hypot(m1 - l1, u2 - m2), m1 - m2 + np.hypot(u1 - m1, m2 - l2)

    return both
