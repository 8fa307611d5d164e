"""From a configuration and its swept settings to the points of a sweep."""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections
import numpy as np

from lsa_jax.errors import InputError, one_line
from lsa_jax.reporting import files
from lsa_jax.sweep.fields import load_settings

# File systems take names of 255 bytes; the files of a point add endings to its name.
_LONGEST = 180


class Point(NamedTuple):
    """One run of a sweep; its id, with the swept settings, names its folder under `runs/`."""

    id: str
    settings: dict[str, Any]  # swept, by dotted name; columns of `results.csv` by their last part
    config: ml_collections.ConfigDict  # with the swept settings filled in, locked


def file_name(text: str) -> str:
    """Returns a text as the name of a file or folder; a long one ends with a hash of all of it."""
    name = re.sub(r"[^A-Za-z0-9_.=+-]", "_", text)
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{_hash(text)}"


def _hash(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:16]


def _description(settings: Mapping[str, Any], *, exact: bool = False) -> str:
    """Returns a point's settings in one line, with numbers to six digits, or all of them."""

    def text(value: Any) -> str:
        if not isinstance(value, int | float):
            return str(value)
        short = f"{value + 0:g}"  # of -0.0, too, "0"
        return str(value) if exact and float(short) != value else short

    parts = [
        value if isinstance(value, str) else f"{name.split('.')[-1]}={text(value)}"
        for name, value in settings.items()
    ]
    return ",".join(parts)


def _ids(sweep: list[dict[str, Any]]) -> list[str]:
    """Returns the points' ids; with all digits only where six do not tell them apart.

    Texts that differ in signs which names of files lack are told apart by a hash.
    """
    ids, described = [], []
    for exact in (False, True):
        described = [_description(settings, exact=exact) for settings in sweep]
        ids = [file_name(line.replace(",", "-")) or "single" for line in described]
        if len(set(ids)) == len(ids):
            return ids
    if len(set(described)) < len(described):  # points that are equal
        return ids
    return [f"{name}-{_hash(line)[:8]}" for name, line in zip(ids, described, strict=True)]


def make_points(
    config: ml_collections.ConfigDict,
    sweep: list[dict[str, Any]],
    validate: Callable[[ml_collections.ConfigDict], None],
) -> list[Point]:
    """Returns the sweep's points, each with its own validated configuration.

    Raises:
        InputError: a point's configuration is not accepted, or two points are the same.
    """
    points: dict[str, Point] = {}
    sweep = [{name: _builtin(value) for name, value in settings.items()} for settings in sweep]
    for name, settings in zip(_ids(sweep), sweep, strict=True):
        if len({own.split(".")[-1] for own in settings}) < len(settings):
            raise InputError(
                f"the sweep has a point of {', '.join(settings)}; accepted: fields whose last "
                "parts differ, as these name the columns of results.csv"
            )
        resolved = config.copy_and_resolve_references()
        try:
            with resolved.unlocked():
                resolved.update_from_flattened_dict(settings)
        except (TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"the sweep has the point {settings}: {one_line(error)}; accepted: "
                "values that launch.show lists for each field"
            ) from None
        validate(resolved.lock())
        point = Point(name, dict(settings), resolved)
        if point.id in points:
            raise InputError(f"the sweep has the point {point.id} twice; each must differ")
        points[point.id] = point
    if not points:
        raise InputError("the sweep has no points; every config.sweep.* needs at least one value")
    return list(points.values())


def _builtin(value: Any) -> Any:
    """Turns numpy's numbers into Python's, which configurations of fixed types and JSON hold."""
    if isinstance(value, tuple):
        return tuple(map(_builtin, value))
    return value.item() if isinstance(value, np.generic) else value


def _tuples(value: Any) -> Any:
    """Turns JSON's lists back into the tuples that configurations hold."""
    if isinstance(value, list):
        return tuple(_tuples(member) for member in value)
    if isinstance(value, dict):
        return {name: _tuples(member) for name, member in value.items()}
    return value


def _over(defaults: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Returns values, with defaults where there are none."""
    inner = {
        name: _over(defaults[name], value)
        for name, value in values.items()
        if isinstance(value, dict) and isinstance(defaults.get(name), dict)
    }
    return defaults | values | inner


def recorded_points(workdir: Path) -> tuple[ml_collections.ConfigDict, list[Point]]:
    """Returns the configuration and the points that `config.json` in a folder records.

    Settings that are there since it was written have their defaults.

    Raises:
        InputError: the file cannot be read, or it is not one of ours.
    """
    path = workdir / "config.json"
    try:
        record = files.read_record(workdir)
        recorded, sweep = _tuples(record["config"]), [_tuples(s) for s in record["sweep"]]
        settings = load_settings(recorded.get("experiment"))
        defaults = settings.default_config().to_dict()
        config = ml_collections.ConfigDict(_over(defaults, recorded)).lock()
        return config, make_points(config, sweep, settings.validate)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; accepted: a folder that a sweep wrote"
        ) from None
    except InputError as error:
        told = str(error)
        raise InputError(told if told.startswith(str(path)) else f"{path}: {told}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{path} is damaged; expected what a sweep writes there") from None


def group_points(
    points: list[Point], varying: Callable[[ml_collections.ConfigDict], Collection[str]]
) -> list[list[Point]]:
    """Returns groups of points that differ in certain fields alone, by their first points.

    `varying` returns the top-level fields in which a point may differ from others of its group;
    none for a point that runs alone.
    """
    found: dict[str, list[Point]] = {}
    for point in points:
        names = varying(point.config)
        shared = {name: v for name, v in point.config.to_dict().items() if name not in names}
        found.setdefault(json.dumps(shared, sort_keys=True, default=files.plain), []).append(point)
    return list(found.values())
