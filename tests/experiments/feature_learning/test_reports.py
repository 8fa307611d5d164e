"""Claims and tables on clouds of filters and neurons, by hand."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.experiments.feature_learning.filter_clouds import report as filters
from lsa_jax.experiments.feature_learning.filter_clouds import settings as filter_settings
from lsa_jax.experiments.feature_learning.numbers import (
    FILTER_CLUSTERS,
    GRADIENT_COSINES,
    RESNET_TEST_ACCURACY,
)
from lsa_jax.experiments.feature_learning.weight_clouds import report as neurons
from lsa_jax.experiments.feature_learning.weight_clouds import settings as neuron_settings
from lsa_jax.reporting.intervals import REACH, binomial_error
from lsa_jax.sweep.variants import set_fields


def picture(step, **more):
    places = {"places": [[0.1, 0.2], [0.3, 0.4]], "marks": [[0.5, 0.6]], "nearest": [0, -1]}
    return {"picture": step, **places, **more}


def filter_row(filters, seed=0, **more):
    """Returns a run whose numbers differ by block, epoch and seed."""
    by, row = 0.01 * (seed - 1), {"filters": filters, "seed": seed, "status": "ok"}
    row |= {"id": f"{filters}_{seed}", "test_accuracy": 0.95 + by}
    for block in (1, 2, 3, 4):
        row[f"block{block}_first_cosine"] = 0.5 + 0.1 * block + by
        row[f"block{block}_second_cosine"] = 0.1 * block
        row[f"block{block}_centres_cosine"] = -0.1 * block + by
        row[f"block{block}_start_centres_cosine"] = 0.2 * block
        for ends, turn in (("0_3", 0.3), ("3_7", 5.0), ("7_20", 0.1)):
            row[f"block{block}_moved_{ends}"] = turn * block
    pairs = {"v1_v": 0.9, "v2_v": 0.8, "v3_v": 0.7, "v1_v2": 0.4, "v1_v3": 0.5, "v2_v3": 0.9}
    return row | {name: value + by for name, value in pairs.items()} | more


def filter_config(**fields):
    own = {"epochs": (3, 7, 20), "near_share": 0.5, "sweep.seed": (0, 1)}
    return set_fields(filter_settings.default_config(), own | fields)


def twins(row):
    """Returns two seeds that differ in what their accuracies are alone."""
    own = {"seed": row["seed"] + 1, "test_accuracy": row["test_accuracy"] + 1e-4}
    return pd.DataFrame([row, row | own])


def test_claims_on_filters_are_means_over_blocks_and_pairs():
    rows = pd.DataFrame([filter_row(7, seed) for seed in range(3)])
    three = {"sweep.seed": (0, 1, 2)}
    apart, pairs, turn = filters.make_claims(filter_config(**three), rows)
    assert apart.ours == pytest.approx(0.3 * 2.5)
    assert pairs.ours == pytest.approx(0.6)
    half = scipy.stats.t.ppf(0.975, 2) * 0.01 / np.sqrt(3)
    assert pairs.high - pairs.ours == pytest.approx(half, rel=1e-2)
    # The first turn and the last, not those between.
    assert turn.ours == pytest.approx(0.2 * 2.5)
    assert turn.item == ("mean turn (1 - cosine) up to epoch 3 minus from there to 20, ResNet(7)")
    assert [claim.status for claim in (apart, pairs, turn)] == ["shown"] * 3
    assert [c.paper for c in (pairs, turn)] == [
        "above 0.5083, the paper's least: they agree",
        "above 0",
    ]
    assert apart.paper == "above 0.2: training parts them"
    two = filters.make_claims(filter_config(epochs=(20,), **three), rows)
    assert [claim.item for claim in two] == [apart.item, pairs.item]


@pytest.mark.parametrize(("width", "least"), [(128, 0.5083), (256, 0.6919), (7, 0.5083)])
def test_gradients_agree_above_the_least_pair_of_the_paper(width, least):
    for by, status in ((0.01, "shown"), (-0.01, "not shown")):
        own = dict.fromkeys(("v1_v2", "v1_v3", "v2_v3"), least + by)
        rows = twins(filter_row(width, 1, **own))
        assert filters.make_claims(filter_config(), rows)[1].status == status


@pytest.mark.parametrize(("by", "status"), [(0.01, "shown"), (-0.01, "not shown")])
def test_centres_part_by_more_than_unrelated_ones_do(by, status):
    row = filter_row(7, 1)
    row |= {f"block{block}_start_centres_cosine": -0.1 * block + 0.2 + by for block in range(1, 5)}
    assert filters.make_claims(filter_config(), twins(row))[0].status == status


@pytest.mark.parametrize("width", [128, 256])
@pytest.mark.parametrize(("off", "status"), [(0.09, "shown"), (0.11, "not shown")])
def test_printed_cosines_are_those_of_their_block_and_pair(width, off, status):
    row = filter_row(width, 1)
    for block, cosines in enumerate(FILTER_CLUSTERS[width], start=1):
        row[f"block{block}_centres_cosine"] = cosines[2] + off
    row |= {name: number - off for name, number in GRADIENT_COSINES[width].items()}
    claims = filters.make_claims(filter_config(), twins(row))
    printed = [claim for claim in claims if "within 0.1" in claim.item]
    assert [claim.paper for claim in printed] == [
        *(cosines[2] for cosines in FILTER_CLUSTERS[width]),
        *(GRADIENT_COSINES[width][pair] for pair in ("v1_v2", "v1_v3", "v2_v3")),
    ]
    assert [claim.status for claim in printed] == [status] * 7
    assert [claim.item.split(",")[0] for claim in printed[-2:]] == [
        "cosine of the mean gradients v1 and v3",
        "cosine of the mean gradients v2 and v3",
    ]


def test_accuracy_is_held_against_the_paper_s_with_the_error_of_the_test_images():
    for examples, used in ((500, 500), (None, 2000)):
        rows = pd.DataFrame([filter_row(128, 1, test_accuracy=0.93)])
        claims = filters.make_claims(filter_config(**{"data.num_test": examples}), rows)
        (claim,) = (c for c in claims if "within 3 points" in c.item)
        assert (claim.paper, claim.ours) == (RESNET_TEST_ACCURACY[128], 93.0)
        half = 100 * REACH * binomial_error(0.93, used)
        assert claim.high - claim.ours == pytest.approx(half, rel=5e-3)


def test_a_network_near_chance_speaks_for_nothing_and_one_that_failed_was_not_run():
    near = filter_row(7, 1, test_accuracy=0.51)
    rows = pd.concat([twins(near), pd.DataFrame([filter_row(9, status="failed")])])
    *found, missing = filters.make_claims(filter_config(), rows)
    assert [claim.status for claim in found] == ["undecided"] * 3
    assert "2 of 2 seeds may be no better than a constant answer" in found[0].note
    assert (missing.item, missing.status) == ("clusters and gradients, ResNet(9)", "not run")
    # 0.51 of so many images is no guess.
    many = filters.make_claims(filter_config(**{"data.num_test": 10**6}), rows)
    assert [claim.status for claim in many] == ["shown"] * 3 + ["not run"]
    assert filters.make_claims(filter_config(), pd.DataFrame({"status": ["failed"]})) == []


def test_tables_of_filters_have_paper_and_ours_by_block_and_pair(tmp_path, write_courses):
    rows = [filter_row(128, 0), filter_row(128, 2), filter_row(9, 1)]
    write_courses(
        tmp_path,
        {
            "128_0": [{"epoch": 1, "loss": 2.0}, picture(0, block=2), picture(20, block=2)],
            "128_2": [{"epoch": 1, "loss": 4.0}, picture(5, block=1)],
            "9_1": [picture(7, block=4)],
        },
    )
    rows.append(filter_row(11, status="failed"))
    made = filters.make_report(filter_config(near_share=0.125), pd.DataFrame(rows), tmp_path)
    accuracy, clusters, gradients = (table for _, table in made.tables)
    assert accuracy["test_accuracy"].tolist() == ["0.9500", "0.9500 ± 0.014"]
    assert clusters["network"].tolist() == ["ResNet(9)"] * 4 + ["ResNet(128)"] * 4
    assert clusters["block"].tolist() == [1, 2, 3, 4] * 2
    for place, name in enumerate(("first cosine", "second cosine", "centres cosine")):
        theirs = [f"{cosines[place]:.4f}" for cosines in FILTER_CLUSTERS[128]]
        assert clusters[f"{name}, paper"].tolist() == [""] * 4 + theirs
    assert clusters["first cosine, ours"].tolist()[3:5] == ["0.9000", "0.6000 ± 0.014"]
    assert clusters["second cosine, ours"].tolist()[:2] == ["0.1000", "0.2000"]
    assert clusters["centres cosine, untrained"].tolist()[:3] == ["0.2000", "0.4000", "0.6000"]
    assert gradients[""].tolist()[2:4] == ["cos(v3, v)", "cos(v1, v2)"]
    assert gradients["ours"].tolist()[2:7] == [
        *("0.7000", "0.4000", "0.5000", "0.9000", "0.9000 ± 0.014")
    ]
    assert gradients["paper"].tolist()[5:8] == ["", "0.9727", "0.8655"]
    # Curves of all runs, pictures of a width's first.
    assert made.extra_tables["curves"]["loss"].tolist() == [2.0, 4.0]
    assert made.extra_tables["curves"]["id"].tolist() == ["128_0", "128_2"]
    assert list(made.figures) == ["filters_9", "filters_128"]
    assert "12.5 % of the filters" in made.notes[0]
    figure = made.figures["filters_128"]()
    titled = {axis.get_title(): place for place, axis in enumerate(figure.axes)}
    assert titled["block 2, epoch 0"] == 2 and titled["block 2, epoch 20"] == 3


def neuron_config(**fields):
    return set_fields(neuron_settings.default_config(), {"sweep.seed": (0, 1)} | fields)


MIXTURE = {"data.dataset": "gaussian_mixture", "data.d": 10, "data.k": 4, "clusters": 16}


def test_neurons_are_compared_with_the_start_and_with_chance():
    rows = pd.DataFrame({"silhouette": [0.8, 0.82], "start_silhouette": [0.1, 0.1]})
    rows = rows.assign(best_count=[2, 2], test_accuracy=[0.9, 0.901], status="ok")
    clusters, _ = neurons.make_claims(neuron_config(), rows)
    assert clusters.paper == "above 0.5: weights form clusters"
    assert (clusters.ours, clusters.item) == (0.81, "silhouette of 2 clusters of directions")
    for start, status in (([0.1, 0.82], "undecided"), ([0.1, 0.81], "shown")):
        found, _ = neurons.make_claims(neuron_config(), rows.assign(start_silhouette=start))
        assert found.status == status
        assert found.note == ("" if status == "shown" else "no more than before training")
    # Of 2,000 images 0.53 is no guess where classes are as large as each other, as MNIST's are not.
    low = rows.assign(test_accuracy=[0.53, 0.531])
    for data, status in (("mnist", "undecided"), ("cifar10", "shown")):
        found, _ = neurons.make_claims(neuron_config(**{"data.dataset": data}), low)
        assert found.status == status and ("a constant" in found.note) == (status != "shown")
    for value, status in ((0.51, "shown"), (0.49, "not shown")):
        found, _ = neurons.make_claims(
            neuron_config(), rows.assign(silhouette=[value, value + 1e-4])
        )
        assert found.status == status


def test_three_seeds_have_the_number_of_clusters_beyond_luck_and_two_do_not():
    rows = pd.DataFrame({"best_count": [2, 2, 2]}).assign(silhouette=0.8, start_silhouette=0.1)
    rows = rows.assign(test_accuracy=[0.9, 0.91, 0.92], status="ok")
    three = neuron_config(**{"sweep.seed": (0, 1, 2)})
    _, count = neurons.make_claims(three, rows)
    assert (count.ours, count.paper, count.status) == ("2, 2, 2", 2, "shown")
    assert count.item == "number of clusters, 2 to 6, with the largest silhouette"
    _, few = neurons.make_claims(neuron_config(), rows[:2])
    assert (few.status, few.note) == ("undecided", "it would take 3 seeds")
    _, weak = neurons.make_claims(neuron_config(), rows.assign(silhouette=0.4))
    assert weak.note == "weights are not shown to form clusters"
    found = neurons.make_claims(neuron_config(), rows.assign(status="failed"))
    assert [claim.status for claim in found] == ["not run"] * 2
    assert [claim.paper for claim in found] == ["above 0.5: weights form clusters", 2]


def test_a_mixture_s_claim_has_the_mean_share_and_its_spread():
    rows = pd.DataFrame({"share_covered": [1.0, 0.75], "start_share_covered": [0.0, 0.0]})
    rows = rows.assign(test_accuracy=0.9, status="ok", init_std=0.1, least_covered=[0.98, 0.8])
    config = neuron_config(**MIXTURE, **{"sweep.init_std": (0.1,)})
    claim, least = neurons.make_claims(config, rows)
    assert (least.ours, least.status) == (0.89, "measured")
    assert least.item == "cosine of the nearest neuron, least over clusters"
    assert (claim.ours, claim.status) == (0.875, "not shown")
    assert claim.spread == pytest.approx(np.std([1, 0.75], ddof=1))
    assert claim.item == "share of clusters with a neuron at a cosine of 0.9"
    config = neuron_config(**MIXTURE, **{"sweep.init_std": (0.1, 0.0234)})
    found = neurons.make_claims(config, rows.drop(columns="init_std"))
    assert [claim.status for claim in found] == ["not run"] * 4
    assert found[3].item.endswith(", initial scale 0.023")


def test_the_table_of_neurons_has_a_row_a_scale_and_step_and_pictures_of_first_seeds(
    tmp_path, write_courses
):
    def course(accuracy, *steps):
        rows = [{"step": s, "test_accuracy": accuracy + s, "covered": 0.5} for s in (0, 2)]
        return rows + [picture(step, mark_labels=[1.0]) for step in steps]

    write_courses(
        tmp_path, {"a": course(0.5, 0, 2), "b": course(0.7, 1), "c": course(0.1, 5), "d": []}
    )
    rows = pd.DataFrame({"id": list("abcd"), "init_std": [0.2, 0.2, 0.011, 0.2]})
    rows = rows.assign(share_covered=1.0, start_share_covered=0.0)
    rows["least_covered"] = [0.95, 0.96, 0.95, 0.95]
    rows["test_accuracy"] = 1.0
    rows["status"] = ["ok", "ok", "ok", "failed"]
    config = neuron_config(**MIXTURE, **{"sweep.init_std": (0.011, 0.2)})
    made = neurons.make_report(config, rows, tmp_path)
    ((_, table),) = made.tables
    assert table["initial scale"].tolist() == ["0.011"] * 2 + ["0.2"] * 2
    assert table["step"].tolist() == [0, 2, 0, 2]
    assert table["test accuracy"].tolist() == ["0.100", "2.100", "0.600 ± 0.141", "2.600 ± 0.141"]
    assert list(table)[2:] == ["test accuracy", "best cosine a cluster of data, mean"]
    assert list(made.figures) == ["weights", "weights_0.2"]
    assert made.extra_tables["weights"]["picture"].unique().tolist() == [5]
    assert made.extra_tables["weights_0.2"]["picture"].unique().tolist() == [0, 2]
    assert made.extra_tables["curves"]["id"].tolist() == ["c", "c", "a", "a", "b", "b"]
    statuses = [claim.status for claim in made.claims]  # one seed of two was run at 0.011
    assert statuses == ["undecided", "measured", "shown", "measured"]
    assert "standard deviation 0.011 and 0.2 are ours" in made.notes[0]
    figure = made.figures["weights_0.2"]()
    assert [axis.get_title() for axis in figure.axes] == ["after 0 steps", "after 2 steps"]
    one = neurons.make_report(
        neuron_config(**MIXTURE, init_std=0.3), rows.drop(columns="init_std"), tmp_path
    )
    assert one.tables[0][1]["initial scale"].tolist() == ["0.3", "0.3"]
    assert "standard deviation 0.3 are ours" in one.notes[0]
    assert one.extra_tables["weights"]["picture"].unique().tolist() == [0, 2]
    nothing = neurons.make_report(config, rows.assign(status="failed"), tmp_path)
    assert nothing.tables == [] and nothing.figures == {}


@pytest.mark.parametrize(("label", "color"), [(1.0, "#D62728"), (-1.0, "#FF8C00")])
def test_a_mixture_s_centres_are_red_or_orange_by_their_label(label, color):
    from matplotlib.colors import to_rgba

    figure = neurons._draw([picture(0, mark_labels=[label])])
    dots, star = figure.axes[0].collections
    np.testing.assert_allclose(star.get_facecolor()[0][:3], to_rgba(color)[:3])
    np.testing.assert_allclose(dots.get_facecolors()[0][:3], to_rgba(color)[:3])
