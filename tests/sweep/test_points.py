"""Points of a sweep are put together by what they share, in the order in which they come."""

import ml_collections
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.lemmas.settings import SETTINGS as lemmas_settings
from lsa_jax.reporting import files
from lsa_jax.sweep.experiment import Experiment
from lsa_jax.sweep.fields import product
from lsa_jax.sweep.points import make_points, recorded_points


@pytest.fixture
def points():
    config = ml_collections.ConfigDict(
        {"width": 1, "seed": 0, "data": {"rows": 1}, "max_replicas": 2}
    )
    sweep = product({"width": (2, 1), "data.rows": (1, 2), "seed": (0, 1, 2)})
    return make_points(config, sweep, lambda config: None)


def groups_of(points, varying, **named):
    return Experiment(run=None, report=None, varying=varying, **named).groups(points)


def ids(groups):
    return [[tuple(point.settings.values()) for point in group] for group in groups]


def test_groups_differ_in_the_named_settings_alone_and_keep_the_order_of_the_points(points):
    mixed = points[::-1][::2] + points[::-1][1::2]
    groups = groups_of(mixed, ("seed",))
    assert ids(groups) == [
        [(1, 2, 2), (1, 2, 0), (1, 2, 1)],
        [(1, 1, 1), (1, 1, 2), (1, 1, 0)],
        [(2, 2, 2), (2, 2, 0), (2, 2, 1)],
        [(2, 1, 1), (2, 1, 2), (2, 1, 0)],
    ]


def test_groups_are_cut_at_the_most_replicas_of_their_configuration(points):
    parts = groups_of(points, ("seed",), in_parts=True, arrange=lambda group: group[::-1])
    assert [len(part) for part in parts] == [2, 1] * 4
    assert sum(parts, []) == sum((g[::-1] for g in groups_of(points, ("seed",))), [])
    assert groups_of(points, ()) == [[point] for point in points]


def test_a_folder_written_before_a_setting_was_there_is_read_with_its_default(tmp_path):
    config = lemmas_settings.default_config().to_dict()
    name, default = next((n, v) for n, v in config.items() if isinstance(v, float))
    for change, expected in (({}, default), ({name: 2 * default}, 2 * default)):
        recorded = {n: v for n, v in config.items() if n != name} | change
        files.write_json(tmp_path / "config.json", {"config": recorded, "sweep": [{"k": 64}]})
        read, (point,) = recorded_points(tmp_path)
        assert read[name] == point.config[name] == expected
    record = {"config": config | {"gone": 1}, "sweep": [{"k": 64}]}
    files.write_json(tmp_path / "config.json", record)
    path = tmp_path / "config.json"
    with pytest.raises(InputError, match=f"^{path}: there is no config field config.gone"):
        recorded_points(tmp_path)


@pytest.mark.parametrize(
    ("config", "sweep"),
    [
        ({"k": "many"}, [{}]),
        ({"sweep": 1}, [{}]),
        ({"k": {"k": 1}}, [{}]),
        ({"experiment": ["lsa"]}, [{}]),
        ({}, [{"k": [1]}]),
        ({}, [{"k": {"a": 1}}]),
        ({}, [{"nothing": 1}]),
        ({}, []),
    ],
)
def test_a_record_whose_settings_have_other_types_is_named(tmp_path, config, sweep):
    whole = lemmas_settings.default_config().to_dict()
    files.write_json(tmp_path / "config.json", {"config": whole | config, "sweep": sweep})
    with pytest.raises(InputError, match=f"^{tmp_path / 'config.json'}") as told:
        recorded_points(tmp_path)
    assert "\n" not in str(told.value)


def test_numbers_of_numpy_are_those_of_python_in_every_point():
    config, validate = lemmas_settings.default_config(), lemmas_settings.validate

    def made(k, noise_scale):
        return make_points(config, product({"k": k, "noise_scale": noise_scale}), validate)

    found = made(np.array([64, 128]), np.array([0.5, 1.0]))
    assert found == made((64, 128), (0.5, 1.0))
    assert [set(map(type, point.settings.values())) for point in found] == [{int, float}] * 4
    with pytest.raises(InputError, match="twice"):  # one number has one name
        make_points(config, [{"noise_scale": 0.0}, {"noise_scale": -0.0}], lambda config: None)
