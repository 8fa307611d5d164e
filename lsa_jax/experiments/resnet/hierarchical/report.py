"""The reports on hierarchical targets: errors by series, the paper's claims, the figures."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical import figures
from lsa_jax.experiments.resnet.hierarchical.settings import SEARCHED
from lsa_jax.experiments.resnet.numbers import HIERARCHY_CLAIMS
from lsa_jax.reporting import files
from lsa_jax.reporting.report import Claim, Report

# What counts as learned, where the paper gives no number.
RESNET_ALL_BOUND, RESNET_ALL_WIDTH = 0.3, 50
RESNET_HIDDEN_BOUND, RESNET_HIDDEN_WIDTH = 0.45, 200

_TASK = ["d", "base_degree", "composite_degree"]
_SERIES = ["net", "learner", "width"]


def series_name(net: str, learner: str) -> str:
    """Returns a net and a learner as the paper's legends have them."""
    return learner if net == "none" else f"{net}({learner})"


def threshold(row: pd.Series | ml_collections.ConfigDict) -> float:
    """Returns k alpha^2, the error of an answer that has F right and nothing of G(F)."""
    return (row["d"] // row["base_degree"]) * row["alpha"] ** 2


def _claim(
    name: str,
    ran: bool,
    holds: bool,
    ours: str | float,
    spread: float | None = None,
    **words: object,
) -> Claim:
    """Compares a statement of the paper with runs; without any it was not run."""
    item, paper = (text.format(**words) for text in HIERARCHY_CLAIMS[name])
    if not ran:
        return Claim(item, paper, "", None, "not run")
    return Claim(item, paper, ours, spread, "shown" if holds else "not shown")


def _spread(errors: pd.Series) -> float | None:
    """Returns the deviation over seeds; None where there is one seed or none."""
    return float(errors.std()) if len(errors) > 1 else None


def _medians(rows: pd.DataFrame, by: str = "width") -> pd.Series:
    """Returns the median test error over seeds, by an axis."""
    return rows.groupby(by)["test_error"].median()


def _at_extreme(
    rows: pd.DataFrame, extreme: Callable[[pd.Series], float]
) -> tuple[float, float | None]:
    """Returns the median at the width where it is extreme, and the spread of the seeds there."""
    medians = _medians(rows).dropna()
    if medians.empty:
        return np.nan, None
    width = extreme(medians)
    return float(medians[width]), _spread(rows.loc[rows["width"] == width, "test_error"])


def _below(name: str, rows: pd.DataFrame, ours: float, **words: object) -> Claim:
    """Claims that the medians at all widths are at most a bound, which is ours."""
    worst, spread = _at_extreme(rows, pd.Series.idxmax)
    return _claim(name, len(rows) > 0, worst <= ours, worst, spread, learned=ours, **words)


def _least(name: str, rows: pd.DataFrame, *, learns: bool, bound: float, **words: object) -> Claim:
    """Claims on which side of k alpha^2 the least median over the widths lies."""
    least, spread = _at_extreme(rows, pd.Series.idxmin)
    holds = least < bound if learns else least > bound
    return _claim(name, len(rows) > 0, holds, least, spread, bound=bound, **words)


def _wanted(config: ml_collections.ConfigDict) -> list[tuple[str, str]]:
    """Returns all (net, learner) of a sweep."""
    axes = config.sweep
    return [*axes.series, *axes.baselines, *axes.exact, *axes.limits]


def _of(fine: pd.DataFrame, net: str, learner: str) -> pd.DataFrame:
    return fine[(fine["net"] == net) & (fine["learner"] == learner)]


def width_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns what figure 2 shows: the ResNet learns, nothing else does."""
    claims, words = [], {"bound": threshold(config)}
    for net, learner in _wanted(config):
        rows = _of(fine, net, learner)
        if (net, learner) == ("3resnet", "all"):
            rows = rows[rows["width"] >= RESNET_ALL_WIDTH]
            claims.append(_below("resnet_all", rows, RESNET_ALL_BOUND, **words))
        elif (net, learner) == ("3resnet", "hidden"):
            rows = rows[rows["width"] >= RESNET_HIDDEN_WIDTH]
            claims.append(_below("resnet_hidden", rows, RESNET_HIDDEN_BOUND, **words))
        else:
            claims.append(_other_claim(config, rows, net, learner))
    return claims


def early_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns the same of searches that choose the epoch as well, by its test error."""
    claims = zip(_wanted(config), width_claims(config, _early(fine)), strict=True)
    return [
        claim._replace(item=f"{claim.item}, best epoch")
        for (_, learner), claim in claims
        if learner in SEARCHED
    ]


def _early(fine: pd.DataFrame) -> pd.DataFrame:
    return fine.assign(test_error=fine["least_error"])


def _other_claim(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, net: str, learner: str
) -> Claim:
    rows = rows.assign(width=rows["width"].fillna(0))  # a limit has no width
    words = {"series": series_name(net, learner), "bound": threshold(config)}
    return _least("others", rows, learns=False, **words)


def beta_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns what figure 3 shows: the composite signal is learned where beta is above alpha.

    At beta = alpha the paper's "about" leaves it open, and there is no claim.
    """
    claims = []
    nets = _of(fine, *config.sweep.series[0])  # the ResNet
    for beta in config.sweep.beta:
        rows, words = nets[nets["beta"] == beta], {"beta": beta, "bound": threshold(config)}
        if beta > config.alpha:
            claims.append(_least("beta_above", rows, learns=True, **words))
        elif beta < config.alpha:
            claims.append(_least("beta_below", rows, learns=False, **words))
    return claims


def net_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns what the skip and the bottleneck do, each by itself."""
    claims = []
    for net, learner in _wanted(config):
        rows = _of(fine, net, learner)
        words = {"series": series_name(net, learner), "bound": threshold(config)}
        if net == "3resnet":
            rows = rows[rows["width"] >= RESNET_ALL_WIDTH]
            claims.append(_below("resnet_all", rows, RESNET_ALL_BOUND, bound=words["bound"]))
        elif net == "3resnet_full":
            claims.append(_least("skip_alone", rows, learns=True, **words))
        elif net == "3layer_bottleneck":
            claims.append(_least("bottleneck_alone", rows, learns=False, **words))
        else:
            claims.append(_other_claim(config, rows, net, learner))
    return claims


class _Sizes(NamedTuple):
    """From how many examples on series are below a bound.

    Attributes:
        first: the least N at which one of them is; infinite where none is.
        lower: none is with fewer examples, as far as was run; infinite without series.
    """

    first: float
    lower: float


def _sizes(rows: pd.DataFrame, bound: float) -> _Sizes:
    """Compares the median test errors of each series, at each N, with a bound."""
    first, lower = [np.inf], [np.inf]
    for _, series in rows.groupby(_SERIES, dropna=False):
        medians = _medians(series, "num_train")
        reached = medians.index[medians < bound]
        first.append(float(min(reached, default=np.inf)))
        lower.append(float(min(reached, default=medians.index.max())))
    return _Sizes(min(first), min(lower))


def _size(sizes: _Sizes) -> str:
    return f"{sizes.first:g}" if np.isfinite(sizes.first) else f"not below N = {sizes.lower:,g}"


def sample_claims(fine: pd.DataFrame) -> list[Claim]:
    """Returns what theorem 2 says: kernels need many examples for G(F), the ResNet few.

    Where no kernel gets there, all that is known is that it takes more than the largest N that was
    run, and this N has to be as large as the theorem says.
    """
    claims = []
    for (d, base_degree, composite_degree), rows in fine.groupby(_TASK):
        bound, degree = threshold(rows.iloc[0]) / 2, base_degree * composite_degree
        is_network = rows["learner"].isin(("all", "hidden"))
        kernels, nets = _sizes(rows[~is_network], bound), _sizes(rows[is_network], bound)
        words = {"d": d, "degree": degree, "bound": float(d) ** (degree / 2)}
        ran, both = bool((~is_network).any()), is_network.nunique() == 2
        many = kernels.lower >= words["bound"]
        claims.append(_claim("kernel_samples", ran, many, _size(kernels), **words))
        fewer = nets.first < kernels.first and nets.first <= kernels.lower
        claims.append(_claim("resnet_samples", both, fewer, _size(nets), **words))
    return claims


def epoch_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns when the signals are learned: base before composite, by a kernel never."""
    claims = []
    for net, learner in _wanted(config):
        rows, words = _of(fine, net, learner), {"series": series_name(net, learner)}
        if net == "3resnet" and learner in ("all", "hidden"):
            epochs = rows.reindex(columns=["base_epoch", "composite_epoch"]).astype(float)
            holds = bool((epochs["base_epoch"] < epochs["composite_epoch"]).all())
            ours = " / ".join(f"{v:g}" for v in epochs.median())
            claims.append(_claim("base_first", len(rows) > 0, holds, ours, **words))
        else:
            missed = rows["composite_error"] if len(rows) else pd.Series(dtype=float)
            least = float(missed.min())
            spread = _spread(missed)
            claims.append(_claim("never", len(rows) > 0, least > 1 / 2, least, spread, **words))
    return claims


def _series_column(fine: pd.DataFrame, question: str) -> pd.Series:
    names = [series_name(n, o) for n, o in zip(fine["net"], fine["learner"], strict=True)]
    if question == "beta":
        names = [f"{n}, beta = {b:g}" for n, b in zip(names, fine["beta"], strict=True)]
    return pd.Series(names, index=fine.index, dtype=object)


def error_table(fine: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Returns median test errors over seeds, and their range, by series and by an axis.

    Args:
        fine: the points that did not fail, with a column `series`.
        axis: the column that becomes columns; a series without it has one column, "limit".
    """
    rows = fine.assign(column=fine[axis].map(lambda v: "limit" if pd.isna(v) else f"{v:g}"))
    order = list(dict.fromkeys(rows.sort_values(axis)["column"]))

    def cell(errors: pd.Series) -> str:
        text = f"{errors.median():.3g}"
        return f"{text} ({errors.min():.3g} to {errors.max():.3g})" if len(errors) > 1 else text

    table = rows.groupby(["series", "column"], sort=False)["test_error"].apply(cell).unstack()
    return table.reindex(columns=order).reset_index().rename_axis(columns=None)


def _winners(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns what each search chose, and each kernel."""
    shown = ["series", *_TASK, "num_train", "width", "seed", "test_error", "train_error"]
    shown += ["learning_rate", "weight_decay", "candidates", "candidates_finished"]
    shown += ["ridge", "bandwidth"]
    return fine[[name for name in shown if name in fine]]


def _curves(fine: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    """Returns one row an evaluation of every point."""
    parts = []
    for point in fine.to_dict("records"):
        rows = pd.DataFrame(files.read_metrics(workdir, point["id"]))
        for place, name in enumerate(("id", "series", "seed")):
            rows.insert(place, name, point[name])
        parts.append(rows)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _notes(config: ml_collections.ConfigDict) -> list[str]:
    search = config.search
    rungs = zip(search.rung_epochs, search.rung_keep, search.kernel_rung_keep, strict=True)
    words = ", ".join(f"{of_net} ({of_kernel}) after {epoch}" for epoch, of_net, of_kernel in rungs)
    kept = (
        "Of the candidates of a search (of a kernel's) those with the least test error go on, at "
        f"most {words} epochs. "
        if words
        else ""
    )
    return [
        "An error is the mean squared distance, summed over the outputs, on "
        f"{config.num_test} fresh examples. Learning rate and weight decay (ridge and bandwidth) "
        "are those with the least test error, as the paper chooses them, so errors are optimistic. "
        "Errors are those after the last epoch; whether the paper's best results are, or of the "
        "best epoch, it does not say. Cells are medians over seeds and their range; each seed has "
        "its own search.",
        f"{kept}Candidates whose error is not finite, or there above {search.hopeless:g} times the "
        "targets' mean square, are dropped.",
    ]


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep, by its question."""
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    question = config.question
    columns = ["width", "test_error", *_TASK, "num_train", "net", "learner", "beta", "alpha"]
    fine = fine.reindex(columns=list(dict.fromkeys([*fine.columns, *columns])))
    fine = fine.assign(series=_series_column(fine, question))
    curves = _curves(fine, workdir)
    if question == "width":
        least = curves.groupby("id")["test_error"].min() if len(curves) else {}
        fine = fine.assign(least_error=fine["id"].map(least))
    claims = {
        "width": lambda: width_claims(config, fine) + early_claims(config, fine),
        "beta": lambda: beta_claims(config, fine),
        "nets": lambda: net_claims(config, fine),
        "samples": lambda: sample_claims(fine),
        "epochs": lambda: epoch_claims(config, fine),
    }[question]()
    tables, draw = [], functools.partial(figures.draw_empty)
    if len(fine) and question == "epochs":
        shown = ["series", "seed", "base_epoch", "composite_epoch", "first_layer_error"]
        shown += ["base_error", "composite_error", "test_error", "learning_rate", "weight_decay"]
        tables = [("Epochs to half of each signal, and what is missed at the end", fine[shown])]
        draw = functools.partial(figures.draw_epochs, curves)
    elif len(fine) and question == "samples":
        for task, rows in fine.groupby(_TASK):
            heading = "Test error against N, (d, base degree, composite degree) = "
            tables.append((heading + str(tuple(map(int, task))), error_table(rows, "num_train")))
        draw = functools.partial(figures.draw_samples, fine)
    elif len(fine):
        tables = [("Test error against the width m", error_table(fine, "width"))]
        if question == "width":
            heading = "The same at the best of the evaluated epochs of all candidates"
            tables.append((heading, error_table(_early(fine), "width")))
        draw = functools.partial(figures.draw_widths, fine, threshold(config))
    return Report(
        title=config.title,
        tables=[*tables, ("What the searches chose", _winners(fine))],
        claims=claims,
        figures={"hierarchical": draw},
        extra_tables={"curves": curves},
        notes=_notes(config),
    )
