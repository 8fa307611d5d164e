"""Configuration fields of an experiment: defaults, accepted values, rules and the sweep.

An experiment is a folder below `lsa_jax/experiments/` with `settings.py` and `experiment.py`; a
configuration names it by its path, such as `lsa/noise_curves`. Nothing else lists it.

Nothing here imports jax, so that a mistake in a configuration costs a fraction of a second.
"""

import ast
import difflib
import importlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import ml_collections

from lsa_jax.checks import Kind, integer, is_number, one_of, optional, text, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.reporting.courses import OF_NETWORKS, OF_WEIGHTS

# A configuration, or a section of one; nested, and locked once its fields are set.
Config = ml_collections.ConfigDict


class Field(NamedTuple):
    """One setting: its default, what it accepts, and one line on what it means."""

    default: Any
    kind: Kind
    doc: str


def heading(module: str, title: str) -> dict[str, Field]:
    """Returns the fields `experiment`, its folder by its settings' `__name__`, and `title`."""
    name = module.removeprefix("lsa_jax.experiments.").removesuffix(".settings").replace(".", "/")
    return {
        "experiment": Field(name, one_of(name), "what runs"),
        "title": Field(title, text(), "heading of the report"),
    }


def measure_fields(names: Iterable[str] = OF_NETWORKS, why: str = "") -> dict[str, Field]:
    """Returns the fields of an experiment that measures how lazy or rich its runs are.

    Its report then has their courses and their cost; see `reporting.curves`.

    Args:
        names: the measures of its networks: `NAMES` where `training.train` trains them,
            `OF_ANY` without dense layers. `OF_WEIGHTS` alone takes no examples, so that there is no
            field for their number.
        why: why there is no more to measure; it is said to who asks for more.
    """
    kind = tuple_of(one_of(*names))
    measures = Field(
        (),
        kind._replace(accepted=f"{kind.accepted}: {why}" if why else kind.accepted),
        "how lazy or rich a network is, along its training; see training.measures",
    )
    if set(names) <= set(OF_WEIGHTS):
        return {"measures": measures}
    return {
        "measures": measures,
        "measured_examples": Field(
            None,
            optional(integer(2)),
            "training examples that measures are taken on; None: as a tenth of training allows",
        ),
    }


def flatten(
    config: Mapping[str, Any] | ml_collections.ConfigDict, prefix: str = ""
) -> dict[str, Any]:
    """Returns the settings of a nested configuration by dotted name."""
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, ml_collections.ConfigDict | dict):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _unknown_field(name: str, fields: Mapping[str, Field]) -> InputError:
    """Returns the error for a field that does not exist, with the nearest one or its neighbours."""
    near = difflib.get_close_matches(name, fields, n=1, cutoff=0.6)
    section = name.rpartition(".")[0]
    neighbours = [field for field in fields if field.rpartition(".")[0] == section]
    if near:
        accepted = f"did you mean config.{near[0]}?"
    else:
        accepted = "accepted: " + ", ".join(f"config.{f}" for f in neighbours or fields)
    return InputError(f"there is no config field config.{name}; {accepted}")


class Rule(NamedTuple):
    """A condition on several fields of a configuration.

    Attributes:
        field: dotted name of the field that an error names; `{c.learner}` stands for its value.
        holds: `(config) -> bool`; sees a configuration whose single fields are accepted and in
            which the rules before it hold.
        accepted: words of the error, after "accepted: "; `{c.data.k}` stands for the value of a
            field.
    """

    field: str
    holds: Callable[[ml_collections.ConfigDict], Any]
    accepted: str


class Settings(NamedTuple):
    """The configuration of an experiment.

    Attributes:
        fields: fields by dotted name, such as "data.image_size".
        sweep: `(config) -> swept settings`, a dictionary by dotted name for each point.
        rules: conditions on several fields, in the order in which they are checked.
    """

    fields: Mapping[str, Field]
    sweep: Callable[[ml_collections.ConfigDict], list[dict[str, Any]]]
    rules: tuple[Rule, ...] = ()

    def default_config(self) -> ml_collections.ConfigDict:
        """Returns the nested, locked configuration that holds every field's default."""
        config = ml_collections.ConfigDict()
        for name, field in self.fields.items():
            *path, last = name.split(".")
            node = config
            for part in path:
                if part not in node:
                    node[part] = ml_collections.ConfigDict()
                node = node[part]
            if field.default is None:
                node[last] = ml_collections.config_dict.placeholder(field.kind.type)
            else:
                node[last] = field.default
        return config.lock()

    def validate(self, config: ml_collections.ConfigDict) -> None:
        """Checks that a configuration has exactly these fields, and that all rules hold.

        Raises:
            InputError: one line that names the field, the value and what is accepted.
        """
        flat = flatten(config)
        for name, value in flat.items():
            if name not in self.fields:
                raise _unknown_field(name, self.fields)
            if not self.fields[name].kind.accepts(value):
                accepted = self.fields[name].kind.accepted
                raise InputError(f"config.{name} is {value!r}; accepted: {accepted}")
        for name, field in self.fields.items():
            if name not in flat:
                raise InputError(f"the configuration lacks config.{name}: {field.doc}")
        for rule in self.rules:
            if not rule.holds(config):
                name, accepted = (words.format(c=config) for words in (rule.field, rule.accepted))
                raise InputError(f"config.{name} is {flat[name]!r}; accepted: {accepted}")


def product(axes: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Returns every combination of the axes' values, the last axis varying fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def product_of(
    *names: str, optional: Iterable[str] = ()
) -> Callable[[ml_collections.ConfigDict], list[dict[str, Any]]]:
    """Returns the sweep over fields by dotted name, whose values are in `config.sweep`.

    The values of "model.kind" are those of `config.sweep.kind`. The last field varies fastest. An
    optional field without values is not swept.
    """

    def sweep(config: ml_collections.ConfigDict) -> list[dict[str, Any]]:
        axes = {name: config.sweep[name.split(".")[-1]] for name in names}
        return product({n: values for n, values in axes.items() if values or n not in optional})

    return sweep


def parse(name: str, written: str, fields: Mapping[str, Field]) -> Any:
    """Returns the value of a field that was written as text, with tuples and None as in Python.

    Raises:
        InputError: there is no such field, or the text is not a value that it accepts.
    """
    if name not in fields:
        raise _unknown_field(name, fields)
    kind = fields[name].kind
    value: Any = written
    if written == "None":
        value = None
    elif kind.type is not str:
        try:
            value = ast.literal_eval(written)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = written
        if kind.type is float and is_number(value):
            value = float(value)
    if not kind.accepts(value):
        instead = _as_tuple(name, value, kind)
        raise InputError(f"config.{name} is {written!r}; accepted: {kind.accepted}{instead}")
    return value


def _as_tuple(name: str, value: Any, kind: Kind) -> str:
    """Returns the end of a message: the tuple to write where its only member was written."""
    inside = tuple(value) if isinstance(value, list | set) else (value,)
    if kind.type is not tuple or not kind.accepts(inside):
        return ""
    return f'; --config.{name}="{inside!r}"'


_EXPERIMENTS = "lsa_jax.experiments"


def experiment_names() -> list[str]:
    """Returns the names of all experiments, sorted."""
    folders = map(Path, importlib.import_module(_EXPERIMENTS).__path__)
    return sorted(
        found.parent.relative_to(folder).as_posix()
        for folder in folders
        for found in folder.rglob("experiment.py")
    )


def import_part(name: str, module: str) -> ModuleType:
    """Imports a module of the experiment of this name: "settings" or "experiment".

    Raises:
        InputError: there is no such experiment.
    """
    if name not in experiment_names():
        accepted = ", ".join(experiment_names())
        raise InputError(f"config.experiment is {name!r}; accepted: {accepted}")
    return importlib.import_module(f"{_EXPERIMENTS}.{name.replace('/', '.')}.{module}")


def load_settings(name: str) -> Settings:
    """Returns the settings of the experiment of this name, without importing jax.

    Raises:
        InputError: there is no such experiment.
    """
    return import_part(name, "settings").SETTINGS
