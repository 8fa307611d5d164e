"""The band around a mean over seeds, and a line for every kind of run."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from lsa_jax.reporting import files
from lsa_jax.reporting.curves import draw_mean, with_measures
from lsa_jax.reporting.report import Report


@pytest.mark.parametrize(
    ("limits", "lowest", "highest"), [({}, -18.64, 108.64), ({"limits": (0, 100)}, 0, 100)]
)
def test_the_band_is_a_standard_deviation_within_what_values_can_be(limits, lowest, highest):
    figure, axis = plt.subplots()
    values, x = pd.Series([0.0, 90.0, 0.0, 90.0]), pd.Series([1, 1, 2, 2])
    draw_mean(axis, values, x, color="black", **limits)
    assert axis.lines[0].get_ydata().tolist() == [45.0, 45.0]
    band = axis.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(lowest, abs=0.01)
    assert band.max() == pytest.approx(highest, abs=0.01)
    plt.close(figure)


_STEPS = (0, 10, 100)


def _report(workdir, scales, **columns):
    """Reports the movement of two layers, 1 and 3 times scale x step, and the kernel's distance."""
    rows = []
    for scale in scales:
        for seed in (0, 1):
            run = f"scale={scale}-seed={seed}"
            history = [
                {
                    "step": step,
                    "kernel_distance": scale * step / 1000,
                    "weight_movement/first": 1.0 * scale * step,
                    "weight_movement/last": 3.0 * scale * step,
                }
                for step in _STEPS
            ]
            row = {"id": run, "scale": scale, "rate": 0.1, "seed": seed, "status": "ok"}
            rows.append(row)
            files.write_run(workdir, run, row, history)
    results = pd.DataFrame(rows).assign(**{"measured_examples": 64} | columns)
    varying = ["scale", "rate", "depth", "seed"]
    return with_measures(Report("", [], [], {}), workdir, results, varying)


def _figure(workdir, scales):
    return _report(workdir, scales).figures["measures"]()


@pytest.mark.parametrize("count", [2, 12])
def test_every_kind_of_run_has_a_line_that_is_the_mean_of_layers_and_the_legend_is_outside(
    tmp_path, count
):
    scales = tuple(range(1, count + 1))
    figure = _figure(tmp_path, scales)
    distance, movement = figure.axes
    for axis, factor in ((distance, 1 / 1000), (movement, 2.0)):
        drawn = np.array([line.get_ydata() for line in axis.lines])
        np.testing.assert_allclose(drawn, factor * np.outer(scales, _STEPS))
    assert len({line.get_color() for line in movement.lines}) == count
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.texts] == [f"scale {scale}" for scale in scales]
    figure.canvas.draw()
    box = legend.get_window_extent()
    assert not any(box.overlaps(axis.get_tightbbox()) for axis in figure.axes)
