"""Claims on hierarchical targets, from made-up errors."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.experiments.resnet.hierarchical.claims import CLAIMS, by_cell, decisive, most_samples
from lsa_jax.experiments.resnet.hierarchical.experiment import runs_of
from lsa_jax.experiments.resnet.hierarchical.settings import SETTINGS
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.outcomes import of_errors
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import ends
from lsa_jax.sweep.variants import set_fields

SEEDS = (0, 1, 2)
RESNET, PLAIN, GAUSSIAN = ("3resnet", "all"), ("3layer", "all"), ("none", "gaussian")
SHOWN, NOT, UNMET, ONE = "shown", "not shown", "condition not met", "shown of one seed"


def row(series, error, seed=0, **changes):
    """Returns a result; seeds differ by 0.01 %."""
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "outputs": 15, "num_train": 500}
    task |= {"alpha": 0.3, "beta": 1.0, "width": 200, "seed": seed, "status": "ok"}
    net, learner = series
    return task | {"net": net, "learner": learner, "test_error": error * (1 + seed / 1e4)} | changes


def rows(series, **by):
    """Returns results of three seeds, of errors by one setting: `width={50: 0.1}`."""
    ((name, errors),) = by.items()
    return [row(series, e, s, **{name: at}) for at, e in errors.items() for s in SEEDS]


def decided(question, found, **fields):
    """Returns the claims of a question, the primary ones first.

    There are so many test examples that an error is as good as exact: within 0.03 %.
    """
    axes = {"sweep.series": (RESNET,), "sweep.seed": SEEDS, "num_train": 500, "num_test": 10**8}
    axes |= {"question": question, "sweep.baseline_seed": SEEDS}
    config = set_fields(SETTINGS.default_config(), axes | fields)
    results = pd.DataFrame(found).assign(id=np.arange(len(found)).astype(str))
    runs = Runs.of(SETTINGS.sweep(config), results, fresh=True)
    return decide_all(CLAIMS[question](config), runs_of(config, runs))


def statuses(claims):
    return [claim.status for claim in claims]


@pytest.mark.parametrize(
    ("resnet", "other", "expected"),
    [  # k alpha^2 is 15 * 0.09 = 1.35
        ({49: 9.0, 50: 0.674, 500: 0.1}, 1.36, [SHOWN, SHOWN]),
        ({50: 0.676, 500: 0.1}, 1.34, [NOT, UNMET]),
        ({50: 0.1, 500: 0.676}, 50.0, [NOT, UNMET]),
        ({200: 0.1}, 1.34, [SHOWN, NOT]),
        ({200: 0.1}, 50.0, [SHOWN, SHOWN]),  # however large: 16.35 is that of the answer 0
    ],
)
def test_the_resnet_learns_at_every_width_and_others_at_none(resnet, other, expected):
    found = rows(RESNET, width=resnet) + rows(PLAIN, width=dict.fromkeys(resnet, other))
    fields = {"sweep.width": tuple(resnet), "sweep.baselines": (PLAIN,)}
    claims = decided("width", found, **fields)
    assert statuses(claims) == expected and claims[0].primary
    nets = {"sweep.series": (RESNET, ("3resnet_full", "all")), "sweep.width": tuple(resnet)}
    full = rows(("3resnet_full", "all"), width=dict.fromkeys(resnet, other / 2.01))
    learned = SHOWN if other / 2.01 < 0.675 else NOT
    assert statuses(decided("nets", found + full, **nets)) == [expected[0], learned]


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [(0.1, 2.0, [SHOWN, SHOWN]), (0.1, 1.0, [SHOWN, NOT]), (1.0, 2.0, [NOT, UNMET])],
)
def test_figure_3_claims_learning_above_alpha_and_none_below(above, below, expected):
    by_beta = {1.0: above, 0.3: 1.0, 0.2: below}
    fields = {"sweep.beta": tuple(by_beta)}
    assert statuses(decided("beta", rows(RESNET, beta=by_beta), **fields)) == expected


@pytest.mark.parametrize(("factor", "status"), [(0.99, SHOWN), (1.01, NOT)])
def test_theorem_1_bounds_the_error_at_every_alpha(factor, status):
    for worst in (0.15, 0.3, 0.6):
        errors = {a: a**4 * (factor if a == worst else 0.5) for a in (0.15, 0.3, 0.6)}
        fields = {"sweep.alpha": tuple(errors)}
        (claim,) = decided("alpha", rows(RESNET, alpha=errors), **fields)
        assert (claim.status, claim.ours) == (status, pytest.approx(factor, rel=1e-3))


def epochs(seen, missed=1.0, of_resnet=0.1):
    """Returns the claims on (base, composite) epochs a seed, and on a kernel's share missed."""
    found = [
        row(RESNET, 0.1, s, base_epoch=b, composite_epoch=c, composite_error=of_resnet)
        for s, (b, c) in enumerate(seen)
    ]
    found.append(row(("3resnet", "ntk"), 9.0, composite_error=missed))
    fields = {"sweep.baselines": (("3resnet", "ntk"),), "num_test": 10_000}
    fields |= {"sweep.seed": tuple(range(len(seen))), "sweep.baseline_seed": (0,)}
    return decided("epochs", found, **fields)


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        ([(1, 9), (2, 10)], SHOWN),
        ([(1, 3), (2, 5)], "undecided"),
        ([(35, 9), (36, 11)], NOT),
        ([(1, 9), (2, np.nan)], UNMET),
        ([(1, 9)], "undecided"),
    ],
)
def test_base_comes_first_where_the_interval_is_above_no_epochs(seen, status):
    assert epochs(seen)[0].status == status
    # Of two seeds an epoch apart 6.35, and in quadrature 1.96 of 4 / sqrt(6).
    half = np.hypot(12.706 / 2, 1.96 * 4 / np.sqrt(6))
    claim = epochs([(5, 45), (5, 46)])[0]
    assert (claim.low, claim.high) == pytest.approx((40.5 - half, 40.5 + half), rel=1e-3)


@pytest.mark.parametrize(
    ("missed", "status"), [(0.55, ONE), (0.52, "undecided"), (0.48, "undecided"), (0.4, NOT)]
)
def test_a_kernel_misses_half_of_the_signal(missed, status):
    """A share is known to 2 / sqrt(10,000), 0.04 on either side."""
    assert epochs([(1, 9), (2, 10)], missed)[1].status == status
    assert epochs([(1, 9), (2, 10)], missed, 0.6)[1].status == UNMET


LINEAR = {"d": 30, "base_degree": 1, "composite_degree": 8, "outputs": 8}


def samples(network, kernel, features=None, width=5852, **task):
    """Returns the claims on errors by N of the ResNet, a kernel and regression on features."""
    of = {RESNET: (network, 200), GAUSSIAN: (kernel, np.nan)}
    fields = {"sweep.limits": (GAUSSIAN,), "sweep.num_train": tuple(network)}
    fields |= {"sweep.limit_num_train": tuple(kernel)}
    if features:
        of["2layer", "last_exact"] = features, width
        fields |= {"sweep.exact": (("2layer", "last_exact"),), "sweep.exact_width": (width,)}
        fields |= {"sweep.exact_num_train": tuple(features)}
    found = [
        one | {"width": own} | task
        for series, (errors, own) in of.items()
        for one in rows(series, num_train=errors)
    ]
    if task:
        fields["sweep.tasks"] = (tuple(task.values()),)
    return decided("samples", found, **fields)


@pytest.mark.parametrize(
    ("network", "kernel", "status", "ours"),
    [
        ({100: 1.0, 500: 0.67}, {100: 1.0, 500: 0.68, 999: 0.1}, SHOWN, "500 / 999"),
        ({100: 1.0, 500: 0.67}, {100: 1.0, 500: 0.67}, NOT, "500 / 500"),
        ({100: 1.0, 500: 0.67}, {100: 0.1, 500: 9.0}, NOT, "500 / 100"),
        ({100: 1.0, 500: 0.68}, {100: 1.0, 500: 1.0}, UNMET, "at no N / at no N"),
        ({100: 1.0, 500: 0.1}, {100: 1.0, 999: 1.0}, UNMET, "500 / at no N"),
    ],
)
def test_kernels_need_more_examples_than_the_resnet(network, kernel, status, ours):
    (claim,) = samples(network, kernel)
    assert claim.status == status and claim.ours.startswith(ours) and claim.primary


@pytest.mark.parametrize(
    ("kernel", "features", "changes", "expected"),
    [
        ({5852: 0.7}, {5852: 0.7}, {}, [SHOWN] * 3),
        ({5851: 0.7}, {5852: 0.7}, {}, [UNMET, SHOWN, SHOWN]),
        ({5852: 0.7}, {5851: 0.7}, {}, [SHOWN, UNMET, SHOWN]),
        ({5852: 0.7}, {5852: 0.7}, {"width": 5851}, [SHOWN, UNMET, SHOWN]),
        ({100: 0.001, 5852: 0.7}, {5852: 0.7}, {}, [NOT, SHOWN, SHOWN]),
        ({5852: 0.7}, {5852: 0.7}, {"network": 0.006}, [UNMET, UNMET, NOT]),
    ],
)
def test_theorems_2_and_3_hold_up_to_their_own_numbers(kernel, features, changes, expected):
    """C(30, 8) / 1000 = 5,852 examples and features; the risk is 0.3^2 / 16 = 0.0056."""
    assert [most_samples(30, 8), most_samples(16, 4)] == [5852, 1]
    options = {"network": 0.005, "width": 5852} | changes
    network = {2000: options.pop("network")}
    found = {
        claim.item: claim.status
        for claim in samples(network, kernel, features, **options, **LINEAR)
    }
    assert [status for item, status in found.items() if item.startswith("least error")] == expected


# --- errors at several settings ------------------------------------------------------------------


def errors(of, num_test=10**8, kept=None):
    """Returns the runs of errors by setting and seed."""
    rows = [
        {"place": place, "seed": seed, "test_error": error, "id": f"{place}-{seed}"}
        for place, values in of.items()
        for seed, error in enumerate(values)
    ]
    return Runs.of([], pd.DataFrame(rows).assign(num_test=num_test), kept, fresh=True)


def test_an_error_of_one_seed_varies_as_a_mean_of_squares():
    """sqrt(2 / 200) = 0.1 of itself; of the best of 25 candidates 3.09 errors, not 1.96."""
    for chosen, reach in ((1, 1.96), (25, 3.09)):
        (found,) = by_cell(errors({0: [0.4]}, 200), ["place"], chosen=chosen).values()
        assert ends(found)[1] - np.log(0.4) == pytest.approx(0.1 * reach, rel=1e-3)


def test_kept_errors_give_the_interval_of_one_seed():
    """Of squares that are 1 and 9 in turn, with deviation 4 over their mean 5."""
    squares, targets = np.tile([1.0, 9.0], 50), np.tile([[3.0], [-3.0]], (50, 1))
    kept = {"0-0": of_errors(squares, targets)}
    np.testing.assert_allclose(
        np.square(kept["0-0"].values[:2], dtype=float), [1 / 9, 1], rtol=1e-3
    )
    (found,) = by_cell(errors({0: [5.0]}, 100, kept), ["place"]).values()
    reach = 1.96 * (4 / 5) / 10
    assert ends(found) == pytest.approx((np.log(5) - reach, np.log(5) + reach), rel=1e-3)


@pytest.mark.parametrize("seeds", [2, 3, 6])
def test_the_best_of_several_settings_has_bonferronis_interval(seeds):
    """Several seeds have Student's interval, to which their own test sets add nothing."""
    values = np.exp(np.linspace(0.0, 1.0, seeds))
    for best, tries in ((False, 1), (True, 3)):
        runs = errors(dict.fromkeys(range(3), values), num_test=50)
        for found in by_cell(runs, ["place"], best=best).values():
            reach = scipy.stats.t.isf(0.025 / tries, seeds - 1) * scipy.stats.sem(np.log(values))
            assert ends(found) == pytest.approx((0.5 - reach, 0.5 + reach))


@pytest.mark.parametrize(
    ("claim", "bound", "place"),
    [
        ("all below", 5.0, 2),  # the largest interval, which contains 2
        ("all below", 0.2, 1),  # surely above
        ("all above", 0.05, 2),
        ("all above", 0.6, 0),  # surely below
        ("one below", 0.7, 0),
        ("one below", 0.01, 0),
    ],
)
def test_the_deciding_setting_is_surely_beyond_the_bound_or_comes_nearest(claim, bound, place):
    of = {0: [0.55, 0.56, 0.57], 1: [0.6, 0.61, 0.62], 2: [0.3, 0.6, 1.1]}
    found = decisive(["place"], claim, bound)(errors(of))
    assert found.values.mean() == pytest.approx(np.mean(np.log(of[place])))


def test_the_best_of_noise_is_seldom_below_its_median():
    """Of six settings whose errors scatter about the bound."""
    rng, below = np.random.default_rng(0), 0
    for _ in range(30):
        of = {place: np.exp(rng.normal(size=3)) for place in range(6)}
        below += ends(decisive(["place"], "one below", 1.0)(errors(of)))[1] < 0
    assert below <= 2
