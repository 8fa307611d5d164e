"""Made-up results of the ResNet's experiments show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.resnet.hierarchical import claims as hierarchical
from lsa_jax.experiments.resnet.hierarchical import settings
from lsa_jax.experiments.resnet.hierarchical.alpha_claims import alpha_claims
from lsa_jax.experiments.resnet.hierarchical.epoch_claims import epoch_claims
from lsa_jax.experiments.resnet.hierarchical.report import make_report
from lsa_jax.experiments.resnet.hierarchical.sample_claims import sample_claims
from lsa_jax.experiments.resnet.minimal_norm import report as minimal_norm
from lsa_jax.experiments.resnet.minimal_norm import settings as minimal_settings
from lsa_jax.sweep.variants import set_fields

SERIES = (("3resnet", "all"), ("3resnet", "hidden"))
OTHERS = (("3layer", "all"), ("2layer", "hidden"))
SEEDS = (0, 1, 2)
# k alpha^2, and the error of the answer 0.
SIGNAL, ZERO = 15 * 0.09, 15 * 1.09
SUMS = np.random.default_rng(1)


def configure(**fields):
    axes = {"sweep.series": SERIES, "sweep.baselines": OTHERS, "sweep.beta": (1.0, 0.5, 0.2, 0.0)}
    axes |= {"sweep.seed": SEEDS, "sweep.baseline_seed": SEEDS, "num_train": 500}
    return set_fields(settings.default_config(), {"d": 30} | axes | fields)


def row(net, learner, error, seed=0, **changes):
    """Returns a result; seeds are not equal to the last bit, which by itself shows nothing."""
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "outputs": 15, "num_train": 500}
    task |= {"alpha": 0.3, "beta": 1.0}
    error *= np.exp(0.01 * SUMS.normal())
    return {**task, "net": net, "learner": learner, "test_error": error, "width": 200} | {
        "seed": seed,
        "least_error": error,
        **changes,
    }


def of_widths(error, keys=SERIES + OTHERS, widths=(200,)):
    return pd.DataFrame(
        [row(*key, error(key, s, w), s, width=w) for key in keys for s in SEEDS for w in widths]
    )


def both(config, runs):
    nets = hierarchical.net_claims(config, runs)
    return hierarchical.width_claims(config, runs) + hierarchical.early_claims(config, runs) + nets


def test_figure_2_of_answers_0_equal_exchanged_or_noise(nothing_shown):
    config, rng = configure(), np.random.default_rng(0)
    for error in (
        lambda key, seed, width: ZERO,
        lambda key, seed, width: SIGNAL,
        lambda key, seed, width: 0.01,
        lambda key, seed, width: 50.0,
        lambda key, seed, width: 0.01 if key in OTHERS else 2.0,
        lambda key, seed, width: SIGNAL * np.exp(rng.normal()),
        lambda key, seed, width: ZERO if key in OTHERS else 0.01,
    ):
        nothing_shown(both(config, of_widths(error)))


def test_figure_2_of_a_resnet_beside_which_nothing_was_run(nothing_shown):
    for others in ((), OTHERS):
        config = configure(**{"sweep.baselines": others})
        nothing_shown(both(config, of_widths(lambda key, seed, width: 0.01, SERIES)))


def contrast(key, seed, width):
    return 2.0 if key in OTHERS else 0.01


@pytest.mark.parametrize("seeds", [(2,), SEEDS])
@pytest.mark.parametrize("bad", [0.9, 9.0])
def test_a_resnet_that_learns_at_some_widths_or_in_some_seeds(bad, seeds, nothing_shown):
    """Of three widths one is worse, in one seed or in all: a median hides the first."""
    config = configure(**{"sweep.width": (200, 500, 1000)})

    def error(key, seed, width):
        worse = key in SERIES and width == 1000 and seed in seeds
        return bad if worse else contrast(key, seed, width)

    found = hierarchical.width_claims(config, of_widths(error, widths=(200, 500, 1000)))
    nothing_shown(found)


def test_the_best_of_many_widths_of_noise(nothing_shown):
    """Once in a while one of six widths has three seeds that agree on a small error."""
    widths = (20, 50, 100, 200, 500, 1000)
    config, shown = configure(**{"sweep.width": widths, "sweep.beta": (1.0, 0.2)}), 0
    config.sweep.series = SERIES[:1]
    for key in range(40):
        rng = np.random.default_rng(key)
        rows = [
            row(*SERIES[0], e, seed, beta=beta, width=width)
            for seed in SEEDS
            for width in widths
            for beta, e in ((1.0, SIGNAL / 2 * np.exp(rng.normal())), (0.2, 1.9))
        ]
        found = hierarchical.beta_claims(config, pd.DataFrame(rows))
        shown += found[0].status == "shown"
    assert shown <= 2  # at most 2.5 % of them are to be


def test_one_seed_of_several_widths(nothing_shown):
    fields = {"sweep.width": (100, 200), "sweep.seed": (0,), "sweep.beta": (1.0, 0.2)}
    config = configure(**fields)
    config.sweep.series = SERIES[:1]
    rows = [
        row(*SERIES[0], e, beta=beta, width=width)
        for beta, errors in ((1.0, (0.1, 3.0)), (0.2, (1.9, 1.9)))
        for width, e in zip((100, 200), errors, strict=True)
    ]
    nothing_shown(hierarchical.beta_claims(config, pd.DataFrame(rows)))


def test_seeds_that_are_equal_and_a_handful_of_examples(nothing_shown):
    runs = of_widths(contrast)
    exact = runs.assign(test_error=runs.groupby("net")["test_error"].transform("first"))
    nothing_shown(both(configure(), exact.assign(least_error=exact["test_error"])))
    nothing_shown(both(configure(num_test=5), runs))
    assert "shown" in {claim.status for claim in both(configure(), runs)}


@pytest.mark.parametrize("lost", ["failed", "absent", "nan", "inf"])
def test_those_that_are_left_where_others_failed(lost, tmp_path, nothing_shown):
    """A run of every series failed; a report says so, in every claim."""
    runs = of_widths(contrast).assign(status="ok")
    runs["id"], bad = [f"run{n}" for n in range(len(runs))], runs["seed"] == 1
    if lost == "failed":
        runs.loc[bad, "status"] = "failed"
    if lost in ("nan", "inf"):
        runs.loc[bad, "test_error"] = float(lost)
    runs = runs[~bad] if lost == "absent" else runs
    for question in ("nets", "beta", "alpha"):
        config = configure(**{"question": question, "sweep.beta": (1.0,), "sweep.alpha": (0.3,)})
        for name in runs["id"]:
            (tmp_path / "runs" / name).mkdir(parents=True, exist_ok=True)
            (tmp_path / "runs" / name / "metrics.jsonl").write_text("")
        found = make_report(config, runs, tmp_path).claims
        nothing_shown(found)
        assert all("failed" in c.note for c in found if "exponent" not in c.item)


def test_signals_and_samples_of_those_that_are_left(nothing_shown):
    seen = {"base_error": 0.1, "composite_error": 0.1, "base_epoch": 10}
    config = configure(**{"question": "epochs"})
    rows = [
        row(*key, 0.1, seed, **seen, composite_epoch=90 + seed) for key in SERIES for seed in SEEDS
    ]
    missed = {"base_error": 0.1, "base_epoch": 10, "composite_epoch": np.nan}
    rows += [
        row(*key, 2.0, s, **missed, composite_error=1 + s / 99) for key in OTHERS for s in SEEDS
    ]
    runs = pd.DataFrame(rows)
    assert [c.status for c in epoch_claims(config, runs)] == ["shown"] * 4
    left = runs.assign(test_error=runs["test_error"].where(runs["seed"] != 1))
    nothing_shown(epoch_claims(config, left))
    nothing_shown(epoch_claims(config, left[left["seed"] != 1]))
    config, runs = samples({100: 4.0, 5852: 0.7}, {100: 9.0, 5852: 0.001}, LINEAR)
    assert [c.status for c in sample_claims(config, runs)].count("shown") == 3
    for name in ("all", "gaussian"):
        lost = (runs["seed"] == 1) & (runs["learner"] == name)
        left = sample_claims(config, runs[~lost])
        nothing_shown([c for c in left if name == "all" or "the ResNet is below a" not in c.item])


def test_other_networks_that_answer_0_are_no_contrast():
    error = {True: ZERO, False: 0.01}
    found = hierarchical.width_claims(
        configure(), of_widths(lambda key, seed, width: error[key in OTHERS])
    )
    assert [claim.status for claim in found] == ["undecided"] * 4


def betas(error):
    betas = configure().sweep.beta
    return pd.DataFrame([row(*SERIES[0], error(b), s, beta=b) for b in betas for s in SEEDS])


def test_figure_3_of_1_3_against_50_answers_0_equal_and_exchanged(nothing_shown):
    config = configure()
    for error in (
        lambda beta: 1.3 if beta > 0.3 else 50.0,
        lambda beta: 15 * (0.09 + beta**2),
        lambda beta: 0.01,
        lambda beta: 2.0,
        lambda beta: 2.0 if beta > 0.3 else 0.01,
    ):
        nothing_shown(hierarchical.beta_claims(config, betas(error)))


def test_figure_3_without_a_beta_at_which_nothing_is_learned(nothing_shown):
    config = configure(**{"sweep.beta": (1.0, 0.5)})
    nothing_shown(hierarchical.beta_claims(config, betas(lambda beta: 0.01)))


def test_theorem_1_of_answers_0_f_alone_constants_noise_and_what_begins_to_fall(nothing_shown):
    alphas, rng = (0.15, 0.3, 0.6), np.random.default_rng(0)
    config = configure(**{"question": "alpha", "sweep.alpha": alphas, "num_train": 500})
    for error in (
        lambda alpha: 15 * (1 + alpha**2),
        lambda alpha: 15 * alpha**2,
        lambda alpha: 0.05 * alpha**2,
        lambda alpha: 0.01,
        lambda alpha: alpha**-4,
        lambda alpha: 9.0 if alpha > 0.3 else 1e-4,
        lambda alpha: 0.1 * np.exp(3 * rng.normal()),
    ):
        rows = [row(*SERIES[0], error(a), s, alpha=a) for a in alphas for s in SEEDS]
        nothing_shown(alpha_claims(config, pd.DataFrame(rows)))


def test_theorem_1_where_seeds_differ_at_an_alpha_that_is_not_the_worst(nothing_shown):
    alphas = (0.15, 0.3)
    config = configure(**{"question": "alpha", "sweep.alpha": alphas, "num_train": 500})
    shares = {0.15: (0.5, 0.55, 0.6), 0.3: (0.01, 0.2, 9.0)}
    rows = [row(*SERIES[0], shares[a][s] * a**4, s, alpha=a) for a in alphas for s in SEEDS]
    nothing_shown(alpha_claims(config, pd.DataFrame(rows)))


LINEAR = (30, 1, 8, 8)


def samples(kernel, network, task=(30, 2, 4, 15), features=None, width=5852):
    """Returns configuration and errors by N of a kernel, the ResNet and regression on features."""
    series = {("none", "gaussian"): kernel, ("3resnet", "all"): network}
    series |= {("2layer", "last_exact"): features} if features else {}
    names = dict(zip(("d", "base_degree", "composite_degree", "outputs"), task, strict=True))
    widths = {"gaussian": np.nan, "all": 200, "last_exact": width}
    rows = [
        row(*key, e, seed, num_train=n, width=widths[key[1]], **names)
        for key, errors in series.items()
        for n, e in errors.items()
        for seed in SEEDS
    ]
    fields = {"question": "samples", "sweep.tasks": (task,), "sweep.num_train": tuple(network)}
    fields |= {"sweep.series": SERIES[:1], "sweep.baselines": (), "sweep.limits": tuple(series)[:1]}
    fields |= {"sweep.limit_num_train": tuple(kernel)}
    if features:
        fields |= {"sweep.exact": tuple(series)[2:], "sweep.exact_width": (width,)}
    return configure(**fields), pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("kernel", "network"),
    [
        ({100: 9.0, 10_000: 9.0}, {100: 9.0, 10_000: 9.0}),
        ({100: 0.01, 10_000: 0.01}, {100: 0.01, 10_000: 0.01}),
        ({100: 0.01, 10_000: 0.01}, {100: 9.0, 10_000: 0.01}),
        # A kernel that learns nothing at all needs more than anything.
        ({100: 16.0, 10_000: 16.0}, {100: 9.0, 10_000: 0.01}),
    ],
)
def test_kernels_that_need_many_where_the_network_does_too(kernel, network, nothing_shown):
    for task in ((30, 2, 4, 15), LINEAR):
        nothing_shown(sample_claims(*samples(kernel, network, task)))


def test_theorems_2_and_3_of_less_than_they_speak_of():
    """C(30, 8) / 1000 = 5,852 examples and features; fewer examples do not fix as many weights."""

    def found(largest, width, size):
        network = {100: 9.0, size: 0.001}
        kernel, features = {100: 4.0, largest: 0.7}, {100: 4.0, size: 0.7}
        claims = sample_claims(*samples(kernel, network, LINEAR, features, width))
        return [c.status for c in claims if c.item.startswith("least error of")]

    assert found(5852, 5852, 5852) == ["shown", "shown"]
    assert found(5800, 5852, 5852) == ["undecided", "shown"]
    assert found(5852, 1000, 5852) == ["shown", "undecided"]
    assert found(5852, 5852, 2000) == ["shown", "undecided"]


def test_signals_that_nobody_learns_or_in_any_order(nothing_shown):
    config = configure(**{"question": "epochs"})
    keys = SERIES + OTHERS
    never = {"base_epoch": np.nan, "composite_epoch": np.nan}
    nothing = [
        row(*key, 9.0, seed, **never, base_error=1.0 + seed / 99, composite_error=1.0 + seed / 99)
        for key in keys
        for seed in SEEDS
    ]
    nothing_shown(epoch_claims(config, pd.DataFrame(nothing)))
    noise = [
        row(*key, 0.1, seed, base_epoch=5 + seed, composite_epoch=7 - seed)
        | {"base_error": 0.1, "composite_error": 0.1 + seed / 99}
        for key in keys
        for seed in SEEDS
    ]
    nothing_shown(epoch_claims(config, pd.DataFrame(noise)))


def test_epochs_of_seeds_that_are_equal_or_as_near_as_one_looks(nothing_shown):
    for later in ((9, 9, 9), (1, 1, 2)):
        config = configure(**{"question": "epochs", "watch_every": 10, "sweep.baselines": ()})
        rows = [
            row(*key, 0.1, seed, base_epoch=10, composite_epoch=10 * (1 + later[seed]))
            | {"base_error": 0.1, "composite_error": 0.1}
            for key in SERIES
            for seed in SEEDS[: 2 if later[0] == 1 else 3]
        ]
        nothing_shown(epoch_claims(config, pd.DataFrame(rows)))


def minimal(search=(), hand=(), **fields):
    """Returns the claims on (training error, test error, norm) a candidate and (error, norm)."""
    fields = {"sweep.width": (200, 100_000), "sweep.seed": (0, 1)} | fields
    config = set_fields(minimal_settings.default_config(), {"d": 40} | fields)
    names = ["train_error", "test_error", "relative_norm"]
    rows = [
        dict(zip(names, np.multiply(one, np.exp(0.01 * SUMS.normal())), strict=True))
        | {"width": width, "seed": seed}
        for one in search
        for width in config.sweep.width
        for seed in config.sweep.seed
    ]
    made = pd.DataFrame(hand, columns=["test_error", "relative_norm"])
    claims = minimal_norm.hand_claims(made, config.num_test)
    return claims + minimal_norm.search_claims(config, pd.DataFrame(rows), claims)


HAND = ((0.1, 9.7), (0.03, 12.5), (0.01, 13.8))


def test_searches_and_constructions_with_errors_of_1_show_nothing(nothing_shown):
    nothing_shown(minimal(((1.0, 1.0, 0.0),), ((1.0, 0.0),)))
    nothing_shown(minimal(((1.0, 1.0, 50.0), (0.9, 1.1, 60.0)), ((0.0, 40.0),)))
    # Exchanged: SGD finds what is made by hand; and both are equal.
    nothing_shown(minimal(((0.1, 0.1, 9.7),), ((0.9, 45.0),)))
    nothing_shown(minimal(((0.1, 0.1, 45.0),), ((0.1, 45.0),)))


def test_searches_that_are_smaller_than_the_paper_s_are_of_one_seed_or_few_examples(nothing_shown):
    far = ((0.05, 1.0, 45.0), (0.01, 1.1, 50.0))
    assert [claim.status for claim in minimal(far, HAND)] == ["shown"] * 6
    nothing_shown(minimal(far, HAND, **{"sweep.width": (200, 2000)})[3:])
    nothing_shown(minimal(far, HAND, **{"sweep.seed": (0,)})[5:])
    nothing_shown(minimal(far, HAND, num_test=5))
    nothing_shown(minimal(far)[5:])  # nothing was made by hand
