import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.noise_curves.claims import runs_of
from lsa_jax.experiments.lsa.noise_curves.report import with_retained
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.variants import set_fields


def test_percentages_are_relative_to_the_same_seed_without_noise():
    axes = {"learner": ("network", "ntk_finite"), "noise": (0.0, 2.0), "seed": (0, 1, 2)}
    axes = {f"sweep.{name}": values for name, values in axes.items()}
    config = set_fields(SETTINGS.default_config(), axes)
    pairs = [(0.8, 0.6), (0.5, 0.45), (0.9, 0.3)]
    table = pd.DataFrame(SETTINGS.sweep(config)).assign(status="ok")
    accuracies = [pairs[row.seed][bool(row.noise)] for row in table.itertuples()]
    table = table.assign(test_accuracy=accuracies, id=[*map(str, table.index)])
    runs = Runs.of(SETTINGS.sweep(config), table.sample(frac=1, random_state=0))
    found = with_retained(runs_of(config, runs).finished).sort_values(["learner", "seed"])
    assert found.loc[found["noise"] == 0, "retained"].tolist() == [100.0] * 6
    noisy = found.loc[found["noise"] > 0, "retained"]
    np.testing.assert_allclose(noisy, [75.0, 90.0, 100 / 3] * 2)
