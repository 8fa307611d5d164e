"""Claims and tables on clouds of filters and neurons, by hand."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.experiments.feature_learning.filter_clouds import claims as filter_claims
from lsa_jax.experiments.feature_learning.filter_clouds import report as filters
from lsa_jax.experiments.feature_learning.filter_clouds import settings as filter_settings
from lsa_jax.experiments.feature_learning.numbers import (
    FILTER_CLUSTERS,
    GRADIENT_COSINES,
    RESNET_TEST_ACCURACY,
)
from lsa_jax.experiments.feature_learning.weight_clouds import claims as neuron_claims
from lsa_jax.experiments.feature_learning.weight_clouds import report as neurons
from lsa_jax.experiments.feature_learning.weight_clouds import settings as neuron_settings
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
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
    own = {"epochs": (3, 7, 20), "near_share": 0.5, "sweep.seed": (0, 1, 2)}
    return set_fields(filter_settings.default_config(), own | fields)


def decide_filters(rows, num_test=2000, **fields):
    table = pd.DataFrame(rows)
    config = filter_config(**{"sweep.filters": tuple(table["filters"].unique().tolist())} | fields)
    runs = Runs.of(filter_settings.sweep(config), table).assign(num_test=num_test)
    return decide_all(filter_claims.make_claims(config), runs)


def test_claims_on_filters_are_means_over_blocks_and_pairs():
    rows = [filter_row(7, seed) for seed in range(3)]
    apart, pairs, turn = decide_filters(rows)
    assert apart.ours == pytest.approx(0.3 * 2.5)
    assert pairs.ours == pytest.approx(0.6)
    half = scipy.stats.t.ppf(0.975, 2) * 0.01 / np.sqrt(3)
    assert pairs.high - pairs.ours == pytest.approx(half, rel=1e-2)
    # The first turn and the last, not those between.
    assert turn.ours == pytest.approx(0.2 * 2.5)
    assert [row.status for row in (apart, pairs, turn)] == ["shown"] * 3
    assert len(decide_filters(rows, epochs=(20,))) == 2


@pytest.mark.parametrize(("width", "least"), [(128, 0.5083), (256, 0.6919), (7, 0.5083)])
def test_gradients_agree_above_the_least_pair_of_the_paper(width, least):
    for by, status in ((0.02, "shown"), (-0.02, "not shown")):
        own = dict.fromkeys(("v1_v2", "v1_v3", "v2_v3"), least + by)
        rows = [filter_row(width, s) | {n: v + 1e-3 * s for n, v in own.items()} for s in range(3)]
        (row,) = [row for row in decide_filters(rows) if "mean of the pairs" in row.item]
        assert row.status == status


def paper_filters(width, off=0.0, start=0.0, **more):
    """Returns seeds with the numbers that the paper prints of a width, up to noise."""
    rows = []
    for seed, noise in enumerate((-0.01, 0.0, 0.01)):
        row = filter_row(width, seed, test_accuracy=RESNET_TEST_ACCURACY[width] / 100 + noise / 10)
        for block, cosines in enumerate(FILTER_CLUSTERS[width], start=1):
            row[f"block{block}_centres_cosine"] = cosines[2] + off + noise
            row[f"block{block}_start_centres_cosine"] = start * cosines[2]
        pairs = GRADIENT_COSINES[width].items()
        rows.append(row | {name: number + off + noise for name, number in pairs} | more)
    return rows


@pytest.mark.parametrize("width", [128, 256])
@pytest.mark.parametrize(("off", "status"), [(0.0, "shown"), (0.06, "shown"), (0.14, "not shown")])
def test_printed_cosines_are_those_of_their_block_and_pair(width, off, status):
    rows = [r for r in decide_filters(paper_filters(width, off)) if "within 0.1" in r.item]
    assert {row.status for row in rows} == {status} and len(rows) == 7
    assert [row.paper for row in rows] == [
        *(cosines[2] for cosines in FILTER_CLUSTERS[width]),
        *(GRADIENT_COSINES[width][pair] for pair in ("v1_v2", "v1_v3", "v2_v3")),
    ]


@pytest.mark.parametrize(
    ("rows", "fields", "words"),
    [
        ({"start": 1.0}, {}, "centres"),  # as they lay before training
        ({"test_accuracy": 0.5}, {}, "cosine"),
        ({}, {"near_share": 0.01}, "cosine"),  # a cluster is one filter
        ({f"block{block}_moved_0_3": 0.1 for block in range(1, 5)}, {}, "turn"),
    ],
)
def test_filters_that_learn_nothing_show_nothing(rows, fields, words):
    own = [row for row in decide_filters(paper_filters(128, **rows), **fields) if words in row.item]
    assert own and not any(row.status.startswith("shown") for row in own)


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


def decide_neurons(fields, values, **columns):
    """Returns the rows of claims on neurons of directions that cluster, by seed."""
    config = neuron_config(**fields, **{"sweep.seed": tuple(range(len(values)))})
    name = "share_covered" if config.data.dataset == "gaussian_mixture" else "silhouette"
    rows = pd.DataFrame({name: values, f"start_{name}": 0.1, "best_count": config.clusters})
    rows["least_covered"] = 0.9 + 0.001 * rows.index
    rows = rows.assign(seed=rows.index, status="ok", test_accuracy=0.99, init_std=config.init_std)
    rows = rows.assign(**columns)
    runs = Runs.of(neuron_settings.sweep(config), rows, fresh=True)
    return decide_all(neuron_claims.make_claims(config), runs.assign(num_test=1000))


@pytest.mark.parametrize(
    ("columns", "statuses"),
    [
        ({}, ["shown", "shown"]),
        ({"best_count": [2, 2, 2, 2, 3]}, ["shown", "not shown"]),
        ({"start_silhouette": [0.1, 0.1, 0.1, 0.1, 0.9]}, ["condition not met"] * 2),
        ({"test_accuracy": 0.52}, ["condition not met"] * 2),
        ({"chance": 0.995}, ["condition not met"] * 2),
        ({"silhouette": [0.3, 0.31, 0.32, 0.3, 0.31]}, ["not shown", "condition not met"]),
    ],
)
def test_neurons_on_images_form_clusters_by_their_silhouette(columns, statuses):
    rows = decide_neurons({}, [0.8, 0.82, 0.81, 0.79, 0.83], **columns)
    assert [row.status for row in rows] == statuses


def test_two_seeds_have_the_number_of_clusters_by_luck():
    assert decide_neurons({}, [0.8, 0.8001])[1].status == "undecided"
    assert decide_neurons({}, [0.8, 0.8001, 0.8002])[1].status == "shown"


@pytest.mark.parametrize(
    ("values", "columns", "status"),
    [
        ([1.0, 1.0, 1.0], {}, "shown"),
        ([1.0, 0.75, 1.0], {}, "not shown"),
        ([1.0, 1.0, 1.0], {"start_share_covered": 1.0}, "condition not met"),
        ([1.0, 1.0, 1.0], {"test_accuracy": 0.5}, "condition not met"),
    ],
)
def test_a_mixture_s_clusters_are_all_found(values, columns, status):
    claim, least = decide_neurons(MIXTURE, values, **columns)
    assert (claim.status, least.status) == (status, "measured")
    scales = decide_neurons(MIXTURE | {"sweep.init_std": (0.1, 0.0234)}, values, init_std=0.1)
    assert [row.status for row in scales[2:]] == ["not run"] * 2


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
    rows["seed"] = [0, 1, 0, 2]
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
    assert "standard deviation 0.011 and 0.2 are ours" in made.notes[0]
    figure = made.figures["weights_0.2"]()
    assert [axis.get_title() for axis in figure.axes] == ["after 0 steps", "after 2 steps"]
    one = neurons.make_report(
        neuron_config(**MIXTURE, init_std=0.3), rows.assign(init_std=0.3), tmp_path
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
