"""Accepted values of fields, and the line that refuses others."""

import ml_collections
import numpy as np
import pytest

from lsa_jax.checks import boolean, integer, number, one_of, optional, require, text, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.sweep import points
from lsa_jax.sweep.fields import Field, Rule, Settings, parse, product_of
from lsa_jax.sweep.variants import set_fields

FIELDS = {
    "count": Field(3, integer(1), "a count"),
    "rate": Field(0.5, number(0, 1), "a rate"),
    "step": Field(0.1, number(0, above=True), "a step"),
    "flag": Field(False, boolean(), "a flag"),
    "kind": Field("a", one_of("a", "b"), "a kind"),
    "name": Field("x", text(), "a name"),
    "inner.sizes": Field((1, 2), tuple_of(integer(1)), "sizes"),
    "inner.limit": Field(None, optional(integer(1)), "a limit"),
    "choice": Field(1, one_of(1, 2), "a number of two"),
}


def settings_of(fields):
    return Settings(fields, product_of())


def test_defaults_are_accepted_and_nested():
    config = settings_of(FIELDS).default_config()
    settings_of(FIELDS).validate(config)
    assert config.inner.sizes == (1, 2) and config.inner.limit is None


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("count", 0, "a whole number, 1 or more"),
        ("count", True, "a whole number"),
        ("count", 2**31, r"a whole number, 1 or more \(below 2\^31\)"),
        ("rate", 10**400, "a number, 0 or more"),
        ("choice", 1.0, "one of 1, 2"),
        ("rate", -0.1, "a number, 0 or more and at most 1"),
        ("rate", float("nan"), "a number"),
        ("step", 0.0, "a number above 0"),
        ("kind", "c", "one of 'a', 'b'"),
        ("name", "", "a text that is not empty"),
        ("inner.sizes", (1, 2.5), "a tuple of values, each a whole number"),
        ("inner.limit", 0, "None or a whole number, 1 or more"),
    ],
)
def test_a_wrong_value_is_named_with_its_field_and_what_is_accepted(name, value, accepted):
    fields = {name: FIELDS[name]._replace(default=value)}
    with pytest.raises(InputError, match=f"config.{name} is .*accepted: .*{accepted}"):
        settings_of(fields).validate(settings_of(fields).default_config())


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("count", "7", 7),
        ("rate", "1", 1.0),
        ("step", "1e-3", 1e-3),
        ("flag", "True", True),
        ("kind", "b", "b"),
        ("name", "3", "3"),
        ("inner.sizes", "(4,)", (4,)),
        ("inner.sizes", "4, 5", (4, 5)),
        ("inner.limit", "None", None),
        ("inner.limit", "2", 2),
    ],
)
def test_values_are_read_from_the_command_line(name, written, value):
    parsed = parse(name, written, FIELDS)
    assert parsed == value and type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "written"),
    [("count", "7.0"), ("count", "__import__('os')"), ("inner.sizes", "(4"), ("inner.sizes", "4")],
)
def test_text_that_is_no_accepted_value_is_refused(name, written):
    with pytest.raises(InputError, match=f"config.{name} is "):
        parse(name, written, FIELDS)


def test_an_unknown_field_names_the_nearest_one():
    with pytest.raises(
        InputError, match=r"no config field config.cuont; did you mean config.count"
    ):
        parse("cuont", "1", FIELDS)


def test_a_missing_field_is_named():
    config = settings_of({"count": FIELDS["count"]}).default_config()
    with pytest.raises(InputError, match="lacks config.rate: a rate"):
        settings_of(FIELDS).validate(config)


def test_a_tuple_may_be_empty_only_where_it_says_so():
    assert tuple_of(integer(1)).accepts(())
    kind = tuple_of(integer(1), empty=False)
    assert kind.accepts((1,)) and not kind.accepts(()) and not kind.accepts((0,))
    assert "one value or more" in kind.accepted


@pytest.mark.parametrize(
    ("values", "ids"),
    [
        ((2.0, 1048576, 1e-9), ["b=2", "b=1.04858e+06", "b=1e-09"]),
        ((1000000, 1000001), ["b=1e+06", "b=1000001"]),
        ((0.12345678, 0.12345681), ["b=0.12345678", "b=0.12345681"]),
        ((None, True, (1, 2), (1, 3)), ["b=None", "b=1", "b=_1-_2_", "b=_1-_3_"]),
    ],
)
def test_ids_of_points_differ_where_settings_do(values, ids):
    config = ml_collections.ConfigDict({"a": {"b": ml_collections.config_dict.placeholder(object)}})
    made = points.make_points(config, [{"a.b": value} for value in values], lambda config: None)
    assert [point.id for point in made] == ids


def test_a_field_that_a_file_sets_to_another_type_is_named():
    with pytest.raises(InputError, match="a config field has another type: .*'count'"):
        set_fields(settings_of(FIELDS).default_config(), {"count": "many"})


def test_a_rule_over_several_fields_names_its_field_and_the_values_of_others():
    rule = Rule("inner.limit", lambda c: (c.inner.limit or 0) <= c.count, "at most {c.count}")
    settings = Settings(FIELDS, product_of("inner.limit", "count"), (rule,))
    config = settings.default_config()
    settings.validate(config)
    with pytest.raises(InputError, match="config.inner.limit is 4; accepted: at most 3"):
        settings.validate(set_fields(config, {"inner.limit": 4}))


def test_a_sweep_is_the_product_of_its_axes_the_last_one_fastest():
    config = ml_collections.ConfigDict({"sweep": {"kind": ("a", "b"), "seed": (0, 1)}})
    points = [tuple(point.values()) for point in product_of("model.kind", "seed")(config)]
    assert points == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    assert list(product_of("model.kind")(config)[0]) == ["model.kind"]


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.float16, np.float32, np.longdouble])
def test_numbers_of_numpy_are_numbers(kind):
    whole = np.issubdtype(kind, np.integer)
    assert integer(1).accepts(kind(3)) == whole and not integer(4).accepts(kind(3))
    assert number(3).accepts(kind(3)) and not number(3, above=True).accepts(kind(3))
    if not whole:
        assert not any(number(0).accepts(kind(value)) for value in ("nan", "inf"))
    assert not any(accepted.accepts(np.True_) for accepted in (integer(0), number(0)))


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(InputError, match="^params is .{200}[.]{3}; accepted: a text") as error:
        require("params", {"w": list(range(1000))}, text())
    assert "\n" not in str(error.value)
