"""The dial, learning rates and coordinate check of networks that do what is claimed, and do not."""

import itertools

import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.coordinate_check.report import (
    make_claims as coordinate_claims,
)
from lsa_jax.experiments.lazy_rich.dial.report import draw as draw_dial
from lsa_jax.experiments.lazy_rich.dial.report import make_claims as dial_claims
from lsa_jax.experiments.lazy_rich.learning_rates.report import make_claims as rate_claims

SCALES, WIDTHS, SEEDS = (0.25, 1.0, 16.0, 256.0), (1, 2, 4), (0, 1, 2)


def dial_table(accuracy, distance, movement, num_test=720):
    """Returns the runs of a dial: what (learner, parameterization, scale, width, seed) has."""
    points = [("output_scale", "network", "standard", a, 1, s) for a in SCALES for s in SEEDS]
    points += [("output_scale", "linearized", "standard", 1.0, 1, s) for s in SEEDS]
    points += [
        ("width", "network", name, 1.0, width, seed)
        for name, width, seed in itertools.product(("ntk", "mup"), WIDTHS, SEEDS)
    ]
    rows = [
        {
            **dict(zip(("dial", "learner", "parameterization", "output_scale"), p, strict=False)),
            "width_factor": p[4],
            "seed": p[5],
            "num_test": num_test,
            "test_accuracy": accuracy(*p[1:]),
            "kernel_distance": distance(*p[1:]),
            "weight_movement": movement(*p[1:]),
        }
        for p in points
    ]
    return pd.DataFrame(rows)


def dial(accuracy, distance=lambda *point: 0.1, movement=lambda *point: 0.1, num_test=720):
    """Returns the claims of a dial."""
    return dial_claims(dial_table(accuracy, distance, movement, num_test))


def test_networks_that_no_dial_moves_show_nothing(nothing_shown):
    rng = np.random.default_rng(0)
    nothing_shown(dial(lambda *p: 0.1, lambda *p: 0.0, lambda *p: 1e-3))
    nothing_shown(dial(lambda *p: 0.9))
    nothing_shown(dial(lambda *p: rng.binomial(720, 0.1) / 720))
    nothing_shown(dial(lambda *p: 0.6 + 0.05 * rng.normal(), lambda *p: 0.1 * rng.random()))
    # Movement that falls as it should, where the network is its linearisation at every scale.
    nothing_shown(dial(lambda *p: 0.9, lambda *p: 1e-4, lambda *p: 1 / p[2]))


def test_exchanged_networks_show_nothing(nothing_shown):
    rich = {"linearized": 0.9, "network": 0.3}
    nothing_shown(dial(lambda learner, name, *p: rich[learner] + 0.2 * (name == "ntk")))
    nothing_shown(dial(lambda *p: 0.5, lambda *p: 0.2 * p[3], lambda *p: 0.1))


def _gains(learner, name, scale, width, seed):
    """A fifth more than the linearisation at the least scale, little else; muP a tenth more."""
    more = {min(SCALES): 0.2012345, max(SCALES): 0.0012345}.get(scale, 0.0)
    return 0.6 + more * (learner == "network") + 0.1012345 * (name == "mup")


def _distances(learner, name, scale, width, seed):
    """Half at the least scale and hardly anything at the largest; as the inverse of the width."""
    return 0.125 / scale**0.9 if name == "standard" else 0.1 / width


def _movements(learner, name, scale, width, seed):
    """As the inverse of the scale where that is large, not below."""
    return 1 / scale if scale >= 16 else 0.3


def test_a_dial_from_rich_to_lazy_shows_all_with_its_numbers():
    found = dial(_gains, _distances, _movements)
    assert [claim.status for claim in found] == ["shown"] + ["undecided"] + ["shown"] * 5
    # 720 examples do not tell whether two accuracies are within 3 points; 10,000 do.
    found = dial(_gains, _distances, _movements, num_test=10_000)
    assert [claim.status for claim in found] == ["shown"] * 7
    moved, still = 0.125 / 0.25**0.9, 0.125 / 256**0.9
    numbers = [20.12, 0.12, still, moved - still, -1.0, 10.12, -1.0]
    np.testing.assert_allclose([claim.ours for claim in found], numbers, atol=6e-5)
    # Seeds agree: what is left is the draw of test examples, of both accuracies.
    for place, first, second in ((0, 0.8012345, 0.6), (1, 0.6012345, 0.6), (5, 0.7012345, 0.6)):
        variances = [share * (1 - share) / 10_000 for share in (first, second)]
        reach, claim = 196 * sum(variances) ** 0.5, found[place]
        ends = 100 * (first - second) + reach * np.r_[-1, 1]
        np.testing.assert_allclose((claim.low, claim.high), ends, atol=0.02)


def test_a_network_that_guesses_or_is_linear_everywhere_says_nothing_of_a_lazy_one():
    many = {"num_test": 10**6}
    guesses = dial(lambda *p: 0.3 if p[2] == min(SCALES) and p[0] == "network" else 0.1, **many)
    assert [claim.status for claim in guesses[:2]] == ["shown", "undecided"]
    assert "near chance" in guesses[1].note
    tied = dial(lambda *p: 0.9, **many)
    assert [claim.status for claim in tied[:2]] == ["undecided", "undecided"]
    assert tied[1].note == "no output scale is shown to make a difference"


def test_half_a_point_less_is_no_gain():
    worse = dial(lambda learner, name, *p: 0.8 - 0.005 * (name == "mup"), num_test=10**6)
    assert (worse[5].ours, worse[5].status) == (-0.5, "not shown")
    worse = dial(lambda learner, *p: 0.8 - 0.005 * (learner == "network"), num_test=10**6)
    assert (worse[0].ours, worse[0].status) == (-0.5, "not shown")


def test_the_figure_has_accuracies_in_percent_and_what_falls_as_a_power_on_logarithmic_axes():
    table = dial_table(_gains, _distances, _movements)
    table = table.assign(target_alignment=0.5, agop_correlation=0.25)
    figure = draw_dial(table)
    columns = ("test_accuracy", "kernel_distance", "target_alignment", "weight_movement")
    columns += ("agop_correlation",)
    networks = table[(table["learner"] == "network") & (table["dial"] == "output_scale")]
    grid = np.array(figure.axes).reshape(2, -1)
    for axis, column in zip(grid[0], columns, strict=True):
        means = networks.groupby("output_scale")[column].mean()
        factor = 100 if column == "test_accuracy" else 1
        np.testing.assert_allclose(axis.lines[0].get_ydata(), factor * means)
        np.testing.assert_allclose(axis.lines[0].get_xdata(), SCALES)
    for axes in grid:
        assert [a.get_yscale() for a in axes] == ["linear", "log", "linear", "log", "linear"]
        assert {a.get_xscale() for a in axes} == {"log"}
    assert [t.get_text() for t in grid[1, 0].get_legend().texts] == ["NTK", "muP"]


def rates(best):
    """Returns the claims where (parameterization, width, seed) learns best at 2^that."""
    rows = [
        {
            "parameterization": name,
            "width_factor": width,
            "seed": seed,
            "learning_rate": 2.0**octave,
            "train_loss": float(np.exp((octave - best(name, width, seed)) ** 2 / 10)),
        }
        for name, width, seed, octave in itertools.product(
            ("standard", "mup"), WIDTHS, SEEDS, range(-9, 3)
        )
    ]
    return rate_claims(pd.DataFrame(rows))


def test_rates_that_stay_in_both_or_fall_in_both_show_nothing_of_mup(nothing_shown):
    nothing_shown(rates(lambda name, width, seed: -3.0))
    nothing_shown(rates(lambda name, width, seed: -3.0 - np.log2(width) * (name == "mup")))
    rng = np.random.default_rng(1)
    nothing_shown(rates(lambda name, width, seed: rng.uniform(-6, 0)))
    falls = rates(lambda name, width, seed: -3.0 - np.log2(width))
    assert [claim.status for claim in falls] == ["shown", "not shown"]


def test_rates_that_fall_in_the_standard_one_alone_show_both():
    found = rates(lambda name, width, seed: -2.0 - np.log2(width) * (name == "standard"))
    assert [claim.status for claim in found] == ["shown", "shown"]
    assert [claim.ours for claim in found] == [-2.0, 0.0]


def coordinates(slope, noise=0.02):
    """Returns the claims where changes grow as width to the power of (rule, name, layer)."""
    rng = np.random.default_rng(2)
    layers = ("Relu_0", "Relu_1", "outputs")
    rows = [
        {"optimizer": rule, "parameterization": name, "width_factor": width, "seed": seed}
        | {
            f"change/{layer}": width ** slope(rule, name, layer) * np.exp(noise * rng.normal())
            for layer in layers
        }
        for rule, name, width, seed in itertools.product(
            ("sgd", "adam"), ("ntk", "standard", "mup"), WIDTHS, SEEDS
        )
    ]
    return coordinate_claims(pd.DataFrame(rows))


def test_changes_that_are_flat_or_steep_everywhere_show_nothing_of_mup(nothing_shown):
    nothing_shown(coordinates(lambda *p: 0.0))
    nothing_shown(coordinates(lambda rule, name, layer: 0.5 * (name == "mup")))
    nothing_shown(coordinates(lambda *p: 0.0, noise=2.0))
    steep = coordinates(lambda rule, name, layer: 0.6)
    assert not [c for c in steep if "muP" in c.item and c.status == "shown"]


def test_changes_that_are_flat_in_mup_alone_show_all():
    powers = {"ntk": -0.5, "standard": 0.9, "mup": 0.0}
    found = coordinates(lambda rule, name, layer: powers[name])
    assert {claim.status for claim in found} == {"shown"}
