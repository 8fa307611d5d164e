"""The report on learning curves: accuracy against the number of examples, with the verdict."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.lsa.noise_curves import verdict
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.series import runs_of
from lsa_jax.reporting.conditions import FITTED
from lsa_jax.reporting.curves import draw_mean, tidy
from lsa_jax.reporting.measure_names import is_measure
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.write import mean_and_spread


def _accuracies(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a learner, one column a number of examples: mean ± standard deviation."""
    cells = (100 * fine["test_accuracy"]).groupby([fine["series"], fine["num_train"]], sort=False)
    wide = cells.apply(mean_and_spread, ".2f").unstack("num_train").sort_index(axis=1)
    wide = wide.reindex(fine["series"].drop_duplicates())
    wide.columns = [f"{count:,.0f} examples" for count in wide.columns]
    return wide.fillna("").reset_index()


def _measures(fine: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Returns the measures of the trained network by the number of examples; none if none."""
    columns = [name for name in fine if is_measure(name)]
    rows = fine[fine["learner"] == "network"]
    if not columns or rows.empty:
        return []
    means = rows.groupby("num_train")[columns].agg(mean_and_spread).reset_index()
    return [("The trained network against its start", means)]


def _draw(fine: pd.DataFrame) -> Any:
    """Draws test accuracy against the number of examples; bands are ± 1 standard deviation."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for (learner, series), rows in fine.groupby(["learner", "series"], sort=False):
        style = {"color": LEARNERS[learner].colors[0], "label": series, "marker": "o"}
        draw_mean(axis, 100 * rows["test_accuracy"], rows["num_train"], **style, markersize=4)
    counts = sorted(fine["num_train"].unique())
    axis.set(xscale="log", xlabel="training examples", ylabel="test accuracy (%)")
    axis.set_xticks(counts, [f"{count:,.0f}" for count in counts])
    axis.minorticks_off()
    tidy(axis)
    axis.legend(frameon=False)
    return figure


_FITS = {
    "crop": "cropped to the square at their centre",
    "pad": "made square by black margins",
    "squash": "squashed to squares",
}


def _of_pictures(config: ml_collections.ConfigDict) -> list[str]:
    """Returns a note on how a user's pictures became the images that are learned from."""
    if config.data.dataset != "folder":
        return []
    side = config.data.image_size
    return [
        f"Pictures that are not square are {_FITS[config.data.fit]} (config.data.fit = "
        f"{config.data.fit!r}); all are resized to {side} x {side} pixels."
    ]


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns table, verdict and figure of a sweep over the number of training examples.

    The verdict is at the largest number of examples that the sweep asks for.
    """
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    fine = fine.assign(series=[LEARNERS[name].label for name in fine["learner"]])
    of_user = config.data.dataset == "folder"
    title = f"{config.title}: {config.data.folder}" if of_user else config.title
    if fine.empty:
        return Report(title, [], [], {}, notes=["No run has finished."])
    largest = runs_of(config, results, workdir).where(num_train=max(config.sweep.num_train))
    found = verdict.decide(largest)
    item = "verdict, at the largest number of examples"
    return Report(
        title=title,
        tables=[("Test accuracy (%)", _accuracies(fine)), *_measures(fine)],
        claims=[Row(item, "", found.word, None, "measured", note=found.sentence), *found.claims],
        figures={"learning_curves": functools.partial(_draw, fine)},
        notes=[
            *_of_pictures(config),
            f"Verdict: {found.sentence}.",
            f"Means over {fine['seed'].nunique()} seed(s), ± their standard deviation, on "
            f"{fine['num_test'].iloc[0]:,.0f} test images of {fine['num_classes'].iloc[0]:.0f} "
            "classes. Rich: the network above its best fixed kernel, and its kernel after training "
            f"above that at the start. Lazy: neither by more than {verdict.MARGIN:g} points, above "
            f"or below, of a network with {100 * FITTED:g} % of its training images right.",
        ],
    )
