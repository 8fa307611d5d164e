"""The dial, learning rates and coordinate check of networks that do what is claimed, and do not."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lazy_rich.coordinate_check import settings as coordinate_settings
from lsa_jax.experiments.lazy_rich.coordinate_check.report import (
    make_claims as coordinate_claims,
)
from lsa_jax.experiments.lazy_rich.dial import settings as dial_settings
from lsa_jax.experiments.lazy_rich.dial.report import draw as draw_dial
from lsa_jax.experiments.lazy_rich.dial.report import make_claims as dial_claims
from lsa_jax.experiments.lazy_rich.learning_rates import settings as rate_settings
from lsa_jax.experiments.lazy_rich.learning_rates.report import make_claims as rate_claims
from lsa_jax.sweep.variants import set_fields

SCALES, WIDTHS, SEEDS = (0.25, 1.0, 16.0, 64.0, 256.0), (1, 2, 4), (0, 1, 2)


def configure(settings, **axes):
    """Returns a configuration with these axes of its sweep."""
    named = {f"sweep.{name}": values for name, values in axes.items()}
    return set_fields(settings.default_config(), named)


def dial_table(accuracy, distance, movement, num_test=720, jitter=1.0):
    """Returns the runs of a dial: what (learner, parameterization, scale, width, seed) has."""
    points = [("output_scale", "network", "standard", a, 1, s) for a in SCALES for s in SEEDS]
    points += [("output_scale", "linearized", "standard", 1.0, 1, s) for s in SEEDS]
    points += [
        ("width", "network", name, 1.0, width, seed)
        for name, width, seed in itertools.product(("ntk", "mup"), WIDTHS, SEEDS)
    ]
    rng, rows = np.random.default_rng(3), []
    for p in points:
        # Seeds are not equal to the last bit, which by itself shows nothing.
        by = 1 + 1e-6 * rng.normal() * jitter
        rows.append(
            {
                **dict(
                    zip(("dial", "learner", "parameterization", "output_scale"), p, strict=False)
                ),
                "width_factor": p[4],
                "seed": p[5],
                "num_test": num_test,
                "test_accuracy": by * accuracy(*p[1:]),
                "kernel_distance": by * distance(*p[1:]),
                "weight_movement": by * movement(*p[1:]),
            }
        )
    return pd.DataFrame(rows)


def dial_config(scales=SCALES, widths=WIDTHS, seeds=SEEDS):
    axes = {"output_scale": scales, "width_factor": widths, "seed": seeds}
    of = {"of_scale": ("standard",), "of_width": ("ntk", "mup")}
    return configure(dial_settings, **axes, **of)


def dial(
    accuracy,
    distance=lambda *point: 0.1,
    movement=lambda *point: 0.1,
    num_test=720,
    *,
    keep=lambda table: table,
    **axes,
):
    """Returns the claims of a dial, of the runs that are kept."""
    table = dial_table(accuracy, distance, movement, num_test)
    return dial_claims(dial_config(**axes), keep(table))


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
    assert found[6].paper == "below -0.25"
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


def test_a_network_near_chance_has_no_gain_on_its_linearisation():
    guesses = dial(lambda learner, *p: 0.1 if learner == "network" else 0.05, num_test=10**6)
    assert guesses[0].status == "undecided" and "near chance" in guesses[0].note


def test_networks_without_their_linearisation_have_all_of_their_claims():
    alone = _good(keep=lambda table: table[table["learner"] == "network"])
    assert len(alone) == 7 and alone[0].status == "not run"


def test_half_a_point_less_is_no_gain():
    worse = dial(lambda learner, name, *p: 0.8 - 0.005 * (name == "mup"), num_test=10**6)
    assert (worse[5].ours, worse[5].status) == (-0.5, "not shown")
    worse = dial(lambda learner, *p: 0.8 - 0.005 * (learner == "network"), num_test=10**6)
    assert (worse[0].ours, worse[0].status) == (-0.5, "not shown")


def _good(**options):
    return dial(_gains, _distances, _movements, num_test=10_000, **options)


def test_a_kernel_that_moves_under_a_network_that_guesses_shows_nothing(nothing_shown):
    """Units that die move a kernel as far as it goes."""
    nothing_shown(dial(lambda *p: 0.1, _distances, _movements, num_test=10_000))
    # muP is ahead of networks that do not learn at their rate.
    dead = dial(lambda learner, name, *p: 0.1 if name == "ntk" else 0.6, _distances, _movements)
    assert [claim.status for claim in dead[5:]] == ["undecided"] * 2
    assert all("near chance" in claim.note for claim in dead[5:])


def test_dials_of_one_seed_or_equal_seeds_decide_nothing():
    one = _good(keep=lambda table: table[table["seed"] == 0], seeds=(0,))
    assert {claim.status for claim in one} == {"undecided"}
    assert all("it would take 2 seeds or more" in claim.note for claim in one)
    for accuracy in (_gains, lambda *p: 0.9 - 0.3 * (p[0] == "network")):
        table = dial_table(accuracy, _distances, _movements, 10_000, jitter=0.0)
        equal = dial_claims(dial_config(), table)
        assert {claim.status for claim in equal} == {"undecided"}
        assert all("all of 3 seeds are equal" in claim.note for claim in equal)


@pytest.mark.parametrize("lost", ["absent", "nan"])
def test_dials_with_runs_that_failed_show_nothing_of_those_that_are_left(lost, nothing_shown):
    def keep(table):
        bad = (table["seed"] == 1) & table["learner"].eq("network")
        numbers = ("test_accuracy", "kernel_distance", "weight_movement")
        if lost == "absent":
            return table[~bad]
        return table.assign(**{name: table[name].mask(bad) for name in numbers})

    found = _good(keep=keep)
    nothing_shown(found)
    assert all("runs have no result" in claim.note for claim in found)
    assert "5 of 15 runs" in found[0].note and "2 more" in found[0].note
    only_linear = _good(keep=lambda t: t[~((t["seed"] == 1) & (t["learner"] == "linearized"))])
    assert {claim.status for claim in only_linear[:5]} == {"undecided"}
    assert [claim.status for claim in only_linear[5:]] == ["shown"] * 2


def test_a_dial_with_one_end_or_two_settings_of_a_slope_decides_nothing():
    one = _good(scales=(256.0,), keep=lambda t: t[t["output_scale"].isin((1.0, 256.0))])
    assert [claim.status for claim in one[:5]] == ["undecided"] * 4 + ["not run"]
    assert "it would take 2 output scales or more" in one[0].note
    two = _good(
        scales=(0.25, 16.0, 256.0),
        widths=(1, 4),
        keep=lambda t: t[
            t["output_scale"].isin((0.25, 1.0, 16.0, 256.0)) & t["width_factor"].isin((1, 4))
        ],
    )
    assert [claim.status for claim in two] == ["shown"] * 4 + ["undecided", "shown", "undecided"]
    assert two[4].note == two[6].note == "a slope takes 3 settings or more"


def test_ends_of_the_dial_are_those_that_were_asked_for(nothing_shown):
    """Where the rich end was not run, the next scale is not it."""
    found = _good(keep=lambda table: table[table["output_scale"] != 0.25])
    nothing_shown(found[:5])
    assert "alpha 0.25" in found[0].item and found[0].status == "not run"
    assert "output_scale 0.25" in found[0].note


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


def rates(
    best, least=1.0, curvature=0.1, octaves=range(-9, 3), jitter=1e-3, keep=lambda table: table
):
    """Returns the claims where (parameterization, width, seed) learns best at 2^that."""
    rng = np.random.default_rng(4)
    rows = [
        {
            "parameterization": name,
            "width_factor": width,
            "seed": seed,
            "learning_rate": 2.0**octave,
            "train_loss": least
            * float(
                np.exp(curvature * (octave - best(name, width, seed)) ** 2 + jitter * rng.normal())
            ),
        }
        for name, width, seed, octave in itertools.product(
            ("standard", "mup"), WIDTHS, SEEDS, octaves
        )
    ]
    axes = {"width_factor": WIDTHS, "learning_rate": tuple(2.0**o for o in octaves), "seed": SEEDS}
    return rate_claims(configure(rate_settings, **axes), keep(pd.DataFrame(rows)))


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
    np.testing.assert_allclose([claim.ours for claim in found], [-2.0, 0.0], atol=0.02)


def _falls(name, width, seed):
    return -2.0 - np.log2(width) * (name == "standard")


def test_a_best_rate_at_the_end_of_those_swept_is_named_and_decides_nothing():
    found = rates(_falls, octaves=range(-4, 3))  # the standard one's is -4 at width 4
    assert [claim.status for claim in found] == ["undecided"] * 2
    assert found[0].note == "width factor 4 is best at the low end of the rates, 2^-4"
    high = rates(lambda *p: 5.0, octaves=range(-9, 3))
    assert [claim.status for claim in high] == ["undecided"] * 2
    assert "width factor 1 is best at the high end of the rates, 2^2" in high[0].note


def test_widths_that_learn_at_no_rate_have_no_best_one(nothing_shown):
    """Losses about log 10, a guess's, least where it is claimed."""
    for least in (2.29, 2.31, 3.0):
        found = rates(_falls, least=least, curvature=1e-3, jitter=1e-4)
        assert [c.status for c in found] == (["shown"] * 2 if least < 2.3 else ["undecided"] * 2)
        assert ("is not shown to learn at any rate" in found[0].note) == (least > 2.3)


def test_rates_of_one_seed_equal_seeds_one_width_or_with_runs_that_failed(nothing_shown):
    def without(table):
        return table[~((table["seed"] == 1) & (table["learning_rate"] == 1.0))]

    failed = rates(_falls, keep=without)
    nothing_shown(failed)
    assert "2 of 72 runs have no result" in failed[0].note
    equal = rates(_falls, jitter=0.0)
    nothing_shown(equal)
    assert equal[0].note == "all of 3 seeds are equal"
    stays = rates(lambda *p: -3.0, jitter=0.0)
    assert [claim.status for claim in stays] == ["undecided"] * 2
    one = rates(_falls, keep=lambda table: table[table["seed"] == 0])
    nothing_shown(one)
    assert "it would take 2 seeds or more" in one[0].note
    # A loss that is not finite is an outcome: the rate is too large.
    beyond = rates(
        _falls, keep=lambda t: t.assign(train_loss=t["train_loss"].mask(t["learning_rate"] > 2.0))
    )
    assert [claim.status for claim in beyond] == ["shown"] * 2


def coordinates(slope, noise=0.02, widths=WIDTHS, seeds=SEEDS, keep=lambda table: table):
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
            ("sgd", "adam"), ("ntk", "standard", "mup"), widths, seeds
        )
    ]
    config = configure(coordinate_settings, width_factor=widths, seed=seeds)
    return coordinate_claims(config, keep(pd.DataFrame(rows)))


def test_changes_that_are_flat_or_steep_everywhere_show_nothing_of_mup(nothing_shown):
    nothing_shown(coordinates(lambda *p: 0.0))
    nothing_shown(coordinates(lambda rule, name, layer: 0.5 * (name == "mup")))
    nothing_shown(coordinates(lambda *p: 0.0, noise=2.0))
    # Where all fall it is not the parameterisation.
    nothing_shown(coordinates(lambda *p: -0.5))
    steep = coordinates(lambda rule, name, layer: 0.6)
    assert not [c for c in steep if "muP" in c.item and c.status == "shown"]


POWERS = {"ntk": -0.5, "standard": 0.9, "mup": 0.0}


def _as_claimed(rule, name, layer):
    return POWERS[name]


def test_changes_that_are_flat_in_mup_alone_show_all():
    found = coordinates(_as_claimed)
    assert {claim.status for claim in found} == {"shown"}


def test_two_widths_one_seed_or_equal_seeds_have_no_slope_that_decides():
    for options, note in (
        ({"widths": (1, 4)}, "it would take 3 widths or more"),
        ({"seeds": (0,)}, "it would take 2 seeds or more"),
        ({"noise": 0.0}, "all of 3 seeds are equal"),
    ):
        for slope in (_as_claimed, lambda *p: -0.9):
            found = coordinates(slope, **options)
            assert {claim.status for claim in found} == {"undecided"}
            assert all(note in claim.note for claim in found)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0, None])
def test_changes_without_a_number_are_named_and_show_nothing(value, nothing_shown):
    """The largest width of one seed in every rule and parameterisation."""

    def keep(table):
        bad = (table["seed"] == 1) & (table["width_factor"] == 4)
        if value is None:
            return table[~bad]
        changes = table.filter(like="change").columns
        return table.assign(**{name: table[name].mask(bad, value) for name in changes})

    found = coordinates(_as_claimed, keep=keep)
    nothing_shown(found)
    assert all("1 of 9 runs have no result" in c.note and "seed 1" in c.note for c in found)
    refuted = coordinates(lambda *p: -0.9, keep=keep)
    assert {c.status for c in refuted if "standard" in c.item} == {"not shown"}


def test_coordinates_of_which_only_one_run_failed_name_it_where_it_counts():
    def keep(table):
        at = (table["optimizer"] == "sgd") & (table["parameterization"] == "mup")
        return table[~(at & (table["seed"] == 2) & (table["width_factor"] == 1))]

    found = {claim.item: claim for claim in coordinates(_as_claimed, keep=keep)}
    named = [item for item, claim in found.items() if "optimizer sgd" in claim.note]
    assert len(named) == 3 and all("muP, sgd" in item for item in named)
    assert {c.status for item, c in found.items() if item not in named} == {"shown"}
