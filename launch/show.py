r"""Prints a configuration: its claim, runs and data, and every field with its meaning.

Examples:
    python -m launch.show --config=configs/quickstart.py
    python -m launch.show --config=configs/lsa/fig6_mnist.py:small --changed
    python -m launch.show --config=configs/quickstart.py --config.data.copies=2 --fields=data

A field's line has its value, and in parentheses the default of its experiment where they differ,
which a star marks; below it stand its meaning and the accepted values. Any field is set by
--config.FIELD=VALUE, as in launch.sweep; nothing is run.
"""

import textwrap

from absl import flags

from launch import _cli
from lsa_jax.errors import InputError
from lsa_jax.reporting import papers
from lsa_jax.sweep import catalog
from lsa_jax.sweep.fields import Field, flatten, load_settings

_cli.declare("config")

_CHANGED = flags.DEFINE_bool("changed", False, "Only fields that differ from the default.")
_FIELDS = flags.DEFINE_list("fields", [], "Only these fields and sections, as data,model.name.")

_WIDTH = 100


def _wanted(fields: dict[str, Field]) -> dict[str, Field]:
    """Returns the fields of --fields; raises where it names no field or section."""
    if not _FIELDS.value:
        return fields
    chosen: set[str] = set()
    for given in _FIELDS.value:
        below = [name for name in fields if name == given or name.startswith(f"{given}.")]
        if not below:
            known = dict.fromkeys(name.partition(".")[0] for name in fields)
            raise InputError(f"--fields has {given!r}; accepted: a field, or of {', '.join(known)}")
        chosen.update(below)
    return {name: field for name, field in fields.items() if name in chosen}


def _describe(name: str, field: Field, value: object, axis: list[object]) -> str:
    """Returns a field's lines; `axis` has the values that a sweep gives it."""
    differs = value != field.default
    line = f"{'*' if differs else ' '} {name} = {value!r}"
    line += f"  (default {field.default!r})" if differs else ""
    line += f"  swept: {', '.join(map(repr, axis))}" if axis else ""
    meaning = f"{field.doc}; accepted: {field.kind.accepted}"
    wrapped = [
        textwrap.fill(line, _WIDTH, subsequent_indent="      ", break_on_hyphens=False),
        textwrap.fill(meaning, _WIDTH, initial_indent="      ", subsequent_indent="      "),
    ]
    return "\n".join(wrapped)


def main() -> None:
    """Prints the configuration that --config names."""
    _cli.end_with_reader()
    config, points = _cli.configured_points(sweep=True)
    fields = _wanted(load_settings(config.experiment).fields)
    values, axes = flatten(config), catalog.swept(points)
    path = papers.split_config(_cli.config_name())[0]
    print(": ".join(filter(None, papers.item_and_claim(path))))
    print(f"{_cli.config_name()}: experiment {config.experiment}, {len(points)} runs")
    data = catalog.needed_data(config, (point.settings for point in points))
    print(f"data: {', '.join(data) or 'none'}\n")
    for name, field in fields.items():
        if not _CHANGED.value or values[name] != field.default:
            print(_describe(name, field, values[name], axes.get(name, [])))


if __name__ == "__main__":
    _cli.run(main, configured=True)
