"""The coordinate check's claims, table and figure, on powers of the width."""

import pandas as pd
from reports import make_report

from lsa_jax.experiments.lazy_rich.coordinate_check.settings import SETTINGS
from lsa_jax.sweep.variants import set_fields

# Slopes by update rule and parameterisation: of the outputs, and of two layers before them.
STEEP = {
    ("sgd", "standard"): (0.31, 0.0, 0.1),
    ("sgd", "mup"): (0.0, 0.14, -0.16),
    ("sgd", "ntk"): (0.9, -0.5, -0.12),
    ("adam", "standard"): (0.29, 0.9, 0.9),
    ("adam", "mup"): (0.02, 0.03, 0.3),
}


def changes(widths=(4, 1, 16), seeds=3):
    """Returns changes that are powers of the width, whose slopes differ by 0.001 a seed."""
    rows = [
        {"optimizer": rule, "parameterization": name, "seed": seed, "width_factor": width}
        | {
            f"change/{layer}": (2 + place) * width ** (slope + 0.001 * (seed - 1))
            for place, (layer, slope) in enumerate(
                zip(("outputs", "second", "first"), of_layers, strict=True)
            )
        }
        for (rule, name), of_layers in STEEP.items()
        for seed in range(seeds)
        for width in widths
    ]
    return pd.DataFrame(rows).assign(status="ok")


def reported(table, tmp_path):
    names = ("optimizer", "parameterization", "width_factor", "seed")
    axes = {f"sweep.{name}": tuple(table[name].unique().tolist()) for name in names}
    return make_report(set_fields(SETTINGS.default_config(), axes), table, tmp_path)


def test_the_coordinate_check_decides_each_rule_by_its_control(tmp_path):
    claims = reported(changes(), tmp_path).claims
    found = {c.item.removeprefix("slope of log change against log width, "): c for c in claims}
    expected = {
        "standard, sgd, outputs": (0.31, "shown"),
        "muP, sgd, second, within 0.15": (0.14, "shown"),
        "muP, sgd, first, within 0.15": (-0.16, "not shown"),
        "NTK, sgd, mean of features": (-0.31, "shown"),
        # Adam's control fails, so that nothing of muP can be said.
        "standard, adam, outputs": (0.29, "not shown"),
        "muP, adam, second, within 0.15": (0.03, "condition not met"),
        "muP, adam, first, within 0.15": (0.3, "condition not met"),
    }
    assert {item: (found[item].ours, found[item].status) for item in expected} == expected
    few = reported(changes(widths=(4, 16)), tmp_path).claims
    assert {claim.status for claim in few} == {"condition not met"}
