"""Made-up results of feature learning's experiments show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.feature_learning.filter_clouds import report as filter_clouds
from lsa_jax.experiments.feature_learning.filter_clouds import settings as filter_settings
from lsa_jax.experiments.feature_learning.fixed_features import report as fixed_features
from lsa_jax.experiments.feature_learning.fixed_features import settings as fixed_settings
from lsa_jax.experiments.feature_learning.numbers import FILTER_CLUSTERS, GRADIENT_COSINES
from lsa_jax.experiments.feature_learning.weight_clouds import report as weight_clouds
from lsa_jax.experiments.feature_learning.weight_clouds import settings as weight_settings
from lsa_jax.sweep.variants import set_fields


def models(linear, network, hinge=0.9, norm=1.0, bound=0.4, failed=0, num_test=10_000, **axes):
    """Returns the claims on linear models and networks, by seed, of a sweep's axes."""
    asked = {"cases": ((100, 5),), "features": ("neurons",), "N": (10,)}
    asked |= {"seed": tuple(range(len(network)))} | axes
    fields = {f"sweep.{name}": values for name, values in asked.items()}
    config = set_fields(fixed_settings.default_config(), fields | {"num_test": num_test})
    columns = {"num_patterns": 100, "k": 5, "status": "ok"}
    rows = [{"learner": "neurons", "N": 10, "test_accuracy": accuracy} for accuracy in linear] + [
        {"learner": "network", "N": np.nan, "test_accuracy": accuracy} for accuracy in network
    ]
    found = pd.DataFrame(rows).assign(test_hinge=hinge, norm=norm, bound=bound, **columns)
    found["seed"] = found.groupby("learner").cumcount()
    found.loc[found.index[:failed], "status"] = "failed"
    return fixed_features.make_claims(config, found)


def test_zero_weights_show_no_lower_bound(nothing_shown):
    nothing_shown(models([0.5] * 3, [0.5] * 3, hinge=1.0, norm=0.0))
    chance, high = [0.5, 0.501, 0.499], [0.99, 1.0, 0.99]
    # Weights that are hardly there are no better than none.
    for norm in (0.0, 1e-9):
        zero, gap = models(chance, high, hinge=1.0, norm=norm)
        assert zero.status == "not run" and gap.status == "shown"


def test_fixed_features_of_failed_equal_or_few_runs_show_nothing(nothing_shown):
    linear, network = [0.78, 0.781, 0.779], [0.99, 1.0, 0.991]
    assert [claim.status for claim in models(linear, network)] == ["shown"] * 2
    nothing_shown(models(linear, [0.99] * 3))
    nothing_shown(models([0.78] * 3, network))
    nothing_shown(models(linear, network, failed=1))
    nothing_shown(models(linear, network, num_test=20))
    # Three seeds that differ by as much as they are ahead.
    nothing_shown(models([0.8, 0.801, 0.799], [0.85, 0.95, 1.0]))
    # What is the same in the problem of a seed is no difference.
    assert models([0.6, 0.7, 0.8], [0.7, 0.81, 0.9])[1].status == "shown"


def test_what_an_interrupted_sweep_of_fixed_features_leaves_shows_nothing(nothing_shown):
    linear, network = [0.78, 0.781, 0.779], [0.99, 1.0, 0.991]
    for axes in ({"seed": range(5)}, {"features": ("neurons", "rbf")}, {"N": (10, 30)}):
        claims = models(linear, network, **{name: tuple(of) for name, of in axes.items()})
        nothing_shown(claims)
        assert all("runs failed or are not there" in claim.note for claim in claims)
    # A case that was not begun is not left out.
    claims = models(linear, network, cases=((100, 5), (30, 3)))
    assert [claim.status for claim in claims] == ["shown"] * 2 + ["not run"] * 2


@pytest.mark.parametrize(
    ("linear", "network"),
    [
        ([0.5] * 3, [0.5] * 3),
        ([0.9] * 3, [0.9] * 3),
        ([0.99] * 3, [0.6] * 3),
        ([0.6, 0.65, 0.7], [0.6, 0.72, 0.66]),
    ],
)
def test_fixed_features_as_good_as_the_network_show_nothing(linear, network, nothing_shown):
    nothing_shown(models(linear, network))


def filters(rng, accuracy=0.95, pairs=(0.0, 0.04), centres=(0.0, 0.04), **fields):
    """Returns the claims on filters whose cosines are noise (mean, deviation) of seeds."""
    config = set_fields(filter_settings.default_config(), {"sweep.seed": (0, 1, 2)} | fields)
    rows = []
    for _ in range(3):
        row = {"filters": 128, "status": "ok", "test_accuracy": accuracy}
        for block in range(1, 5):
            row[f"block{block}_start_centres_cosine"] = -0.3 + rng.normal(scale=0.04)
            row[f"block{block}_centres_cosine"] = -0.3 - rng.normal(*centres)
            first, *_, last = [0, *config.epochs]
            for end in zip([0, *config.epochs], config.epochs, strict=False):
                row["block{}_moved_{}_{}".format(block, *end)] = 0.3 + 0.1 * rng.normal()
            assert first < last
        row |= {name: rng.normal(*pairs) for name in ("v1_v2", "v1_v3", "v2_v3")}
        rows.append(row)
    return filter_clouds.make_claims(config, pd.DataFrame(rows))


def test_filters_that_did_not_part_and_gradients_that_barely_agree_show_nothing(nothing_shown):
    rng = np.random.default_rng(2)
    nothing_shown([c for c in filters(rng) if "test accuracy" not in c.item])
    # More than random directions, far less than table 7.
    weak = [c for c in filters(rng, pairs=(0.3, 0.01)) if "gradients" in c.item]
    nothing_shown(weak)
    nothing_shown(filters(rng, accuracy=0.5, pairs=(0.9, 0.0), centres=(0.6, 0.0)))


def paper_filters(same=False, seeds=(0, 1, 2), start=0.0, accuracies=(0.957,) * 3, turn=0.5, **of):
    """Returns the claims on filters with the paper's numbers at width 128, up to noise."""
    config = set_fields(filter_settings.default_config(), {"sweep.seed": seeds} | of)
    rng, rows = np.random.default_rng(8), []
    for accuracy in accuracies:
        noise = 0.0 if same else rng.normal(scale=0.01)
        row = {"filters": 128, "status": "ok", "test_accuracy": accuracy}
        for block, cosines in enumerate(FILTER_CLUSTERS[128], start=1):
            row[f"block{block}_centres_cosine"] = cosines[2] + noise
            row[f"block{block}_start_centres_cosine"] = start * cosines[2]
            row |= {f"block{block}_moved_0_3": turn + noise, f"block{block}_moved_3_20": 0.0}
        row |= {name: value + noise for name, value in GRADIENT_COSINES[128].items()}
        rows.append(row)
    return filter_clouds.make_claims(config, pd.DataFrame(rows))


def test_the_paper_s_own_filters_are_shown():
    claims = paper_filters()
    assert {claim.item: claim.status for claim in claims if claim.status != "shown"} == {}


def test_filters_of_equal_failed_or_few_runs_show_nothing(nothing_shown):
    nothing_shown(paper_filters(same=True))
    nothing_shown(paper_filters(seeds=(0, 1, 2, 3, 4)))
    nothing_shown(paper_filters(**{"data.num_test": 20}))
    of_few = paper_filters(**{"near_share": 0.01})  # a cluster is one filter
    nothing_shown([claim for claim in of_few if "test accuracy" not in claim.item])
    # In the mean above chance, one seed at it.
    guessing = paper_filters(accuracies=(0.95, 0.96, 0.5))
    nothing_shown([claim for claim in guessing if "test accuracy" not in claim.item])


def test_filters_that_were_so_before_training_show_nothing(nothing_shown):
    of_start = [claim for claim in paper_filters(start=1.0) if "centres" in claim.item]
    nothing_shown(of_start)
    assert len(of_start) == 5
    nothing_shown([claim for claim in paper_filters(turn=0.03) if "turn" in claim.item])


def test_directions_that_training_does_not_change_or_scatters_show_nothing(nothing_shown):
    mixture = {"data.dataset": "gaussian_mixture", "data.d": 10, "data.k": 4, "clusters": 16}
    for fields, name in ((mixture, "share_covered"), ({}, "silhouette")):
        config = set_fields(weight_settings.default_config(), fields | {"sweep.seed": (0, 1, 2)})
        for values, start, accuracy in (
            ((1.0, 1.0, 1.0), 1.0, 0.9),
            ((1.0, 1.0, 1.0), 0.1, 0.5),
            ((0.4, 0.55, 0.6), 0.1, 0.9),
            ((0.0, 0.0, 0.0), 0.0, 0.9),
        ):
            columns = {f"start_{name}": start, "test_accuracy": accuracy, "status": "ok"}
            columns |= {"best_count": config.clusters, "least_covered": [0.5, 0.51, 0.52]}
            rows = pd.DataFrame({name: values}).assign(**columns)
            nothing_shown(weight_clouds.make_claims(config, rows))


def test_clusters_of_another_number_or_of_any_are_not_the_paper_s(nothing_shown):
    rng = np.random.default_rng(6)
    for counts in ([2] * 5, rng.integers(2, 7, size=5), [4, 4], [4, 4, 4, 4, 2]):
        fields = {"clusters": 4, "sweep.seed": tuple(range(len(counts)))}
        config = set_fields(weight_settings.default_config(), fields)
        rows = pd.DataFrame({"best_count": counts}).assign(start_silhouette=0.1)
        rows["silhouette"] = 0.9 + 0.001 * rows.index
        claims = weight_clouds.make_claims(config, rows.assign(test_accuracy=0.9, status="ok"))
        nothing_shown(claims[1:])


def neurons(fields, values, **columns):
    """Returns the claims on neurons of directions that cluster, by seed."""
    config = set_fields(weight_settings.default_config(), fields)
    name = "share_covered" if config.data.dataset == "gaussian_mixture" else "silhouette"
    rows = pd.DataFrame({name: values, f"start_{name}": 0.1, "best_count": config.clusters})
    rows = rows.assign(status="ok", test_accuracy=0.99, least_covered=0.9).assign(**columns)
    return weight_clouds.make_claims(config, rows)


MIXTURE = {"data.dataset": "gaussian_mixture", "data.d": 10, "data.k": 4, "clusters": 16}
MIXTURE |= {"sweep.init_std": ()}


def test_neurons_of_equal_failed_or_few_runs_or_constant_answers_show_nothing(nothing_shown):
    least, values = [0.91, 0.92, 0.93, 0.94, 0.95], [0.8, 0.82, 0.81, 0.79, 0.83]
    own = {"mnist": values, "svhn": values, "gaussian_mixture": [1.0] * 5}
    for fields, data in ((MIXTURE, "gaussian_mixture"), ({}, "mnist"), ({}, "svhn")):
        fields, found = fields | {"data.dataset": data}, own[data]
        assert neurons(fields, found, least_covered=least)[0].status == "shown"
        nothing_shown(neurons(fields, found[:1] * 5))
        nothing_shown(neurons(fields, found[:3], least_covered=least[:3]))
        nothing_shown(neurons(fields | {"data.num_test": 20}, found, least_covered=least))
        # One seed of five guesses.
        half = [0.99, 0.98, 0.5, 0.99, 0.97]
        nothing_shown(neurons(fields, found, least_covered=least, test_accuracy=half))
        # Numbers that are none are not there, and no exception either.
        none = [*found[:2], np.nan, np.nan, np.nan]
        (first, *_) = neurons(fields, none, least_covered=least)
        assert first.status == "undecided" and "3 of 5 runs failed" in first.note
    # Of MNIST's 0 and 1 and of SVHN's, ones are 1135 of 2115 and 5099 of 6843.
    for data, constant in (("mnist", 0.537), ("svhn", 0.745)):
        nothing_shown(neurons({"data.dataset": data}, values, test_accuracy=constant))
    # Digits have 72 test images of both classes, on which 0.6 may be a constant's 0.5.
    for data, status in (("digits", "undecided"), ("mnist", "shown")):
        assert neurons({"data.dataset": data}, values, test_accuracy=0.6)[0].status == status
