"""The band around a mean over seeds, and a line for every kind of run."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lsa_jax.reporting.curves import draw_mean


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
