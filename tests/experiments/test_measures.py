"""Measures along training: whatever trains a network has them, and comes out the same with them."""

import json

import pytest
from small_sweeps import SEARCH

from lsa_jax.errors import InputError
from lsa_jax.reporting import files
from lsa_jax.reporting.courses import EXAMPLES, is_measure, is_measured_alone
from lsa_jax.sweep.experiment import load_experiment
from lsa_jax.sweep.fields import experiment_names, load_settings
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

# Experiments that train no network: their classifiers are sums of given features, or solved for.
UNTRAINED = {"feature_learning/fixed_features", "lsa/image_examples", "lsa/lemmas"}
# Their own numbers are c along training, learning curves, and the measures of a law.
OWN_NUMBERS = {"lazy_rich/collection", "theory/learning_curves", "theory/laws"}

DIGITS = {"data.num_train": 20, "data.num_test": 10, "model.name": "mlp", "model.widths": (4,)}

# By experiment: a few small runs, what is measured of them, and a number that their courses have.
RUNS = {
    "lazy_rich/coordinate_check": (
        DIGITS
        | {
            "steps": 2,
            "sweep.optimizer": ("sgd",),
            "sweep.parameterization": ("mup",),
            "sweep.width_factor": (2,),
            "sweep.seed": (0, 1),
        },
        ("kernel_distance", "weight_movement"),
        "weight_movement/Dense_0",
    ),
    "resnet/hierarchical": (
        SEARCH
        | {
            "search.learning_rates": (0.05, 0.1),
            "sweep.series": (("3resnet", "hidden"), ("3resnet", "last")),
        },
        ("kernel_distance", "agop_correlation", "weight_movement"),
        "weight_movement/w",
    ),
}


def outcomes_of(name, fields, directory):
    settings, experiment = load_settings(name), load_experiment(name)
    config = set_fields(settings.default_config(), fields)
    points = make_points(config, settings.sweep(config), settings.validate)
    data = experiment.load(points, None)
    found = {}
    for place, group in enumerate(experiment.groups(points)):
        outcomes = experiment.run(group, data, directory / str(place), lambda fraction: None)
        found |= {point.id: outcome for point, outcome in zip(group, outcomes, strict=True)}
    return found


def without_measures(outcome):
    """Returns all that a run's files hold but for its measures; NaN is as good as NaN there."""

    def plain(row):
        return {n: v for n, v in row.items() if not is_measure(n) and n != EXAMPLES}

    rows = [plain(row) for row in outcome.history if not is_measured_alone(row)]
    return json.dumps(files.plain([plain(outcome.metrics), rows, outcome.status, outcome.message]))


# What measures the others is tested by itself: `training.train`, one filter's training, a search.
@pytest.mark.parametrize("name", RUNS)
def test_measures_change_nothing_and_begin_at_zero(name, tmp_path):
    fields, names, column = RUNS[name]
    measured = {"measures": names, "measured_examples": 8}
    found = outcomes_of(name, fields | measured, tmp_path / "measured")
    plain = outcomes_of(name, fields, tmp_path / "plain")
    assert {i: without_measures(o) for i, o in found.items()} == {
        i: without_measures(o) for i, o in plain.items()
    }
    assert not any(map(is_measure, [n for o in plain.values() for n in o.metrics]))
    courses = []
    for outcome in found.values():
        course = [row[column] for row in outcome.history if column in row]
        if course:
            assert outcome.metrics[column] == course[-1] and outcome.metrics[EXAMPLES] == 8
            assert "measuring_share" in outcome.timings
            assert course[0] == pytest.approx(0, abs=1e-6) and course[-1] > 1e-6 and course[1:]
            courses.append(course)
        else:
            assert outcome.metrics.keys().isdisjoint({EXAMPLES, column})
    # Learners that train no network of their own have none: one of two in two experiments.
    assert len(courses) == (2 if name == "lazy_rich/coordinate_check" else 1)


@pytest.mark.parametrize(
    ("name", "fields", "why"),
    [
        ("feature_learning/filter_clouds", {}, "batch normalisation couples"),
        ("growing", {}, "a derivative for each word"),
        ("lazy_rich/papers", {"task": "theorem2"}, "'theorem2', whose single filter"),
        ("lsa/kernel_bound", {}, "a single filter has no layer of features"),
    ],
)
def test_measures_that_mean_nothing_are_refused_with_the_reason(name, fields, why):
    settings = load_settings(name)
    config = set_fields(settings.default_config(), fields | {"measures": ("effective_rank",)})
    with pytest.raises(InputError, match=rf"config.measures is .*accepted.*{why}"):
        settings.validate(config)


def test_all_experiments_that_train_a_network_have_measures():
    without = {name for name in experiment_names() if "measures" not in load_settings(name).fields}
    assert without == UNTRAINED | OWN_NUMBERS
