"""Fingerprints: whether a published record still has the settings and report of today's code.

A fingerprint holds the settings, a hash of the sweep's points, the version of the report and a hash
of the results. The version is a number that a person raises, `Experiment.report_version`; claims
that change without it fail the replay test.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lsa_jax.reporting import files, papers
from lsa_jax.sweep import config_files, registry
from lsa_jax.sweep.fields import flatten

# As one of the changes.
POINTS, REPORT = "the points of the sweep", "the report"


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _of(config: Mapping[str, Any], points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "settings": files.plain(flatten(config)),
        "points": _digest(json.dumps(files.plain(list(points)), sort_keys=True).encode()),
        "report": registry.load_experiment(config["experiment"]).report_version,
    }


def of_folder(folder: Path) -> dict[str, Any]:
    """Returns the fingerprint of a finished sweep, with a hash of its results.

    Raises:
        InputError: its experiment is gone.
    """
    record = files.read_record(folder)
    results = _digest((folder / "results.csv").read_bytes())
    return _of(record["config"], record["sweep"]) | {"results": results}


def now(config: str) -> dict[str, Any]:
    """Returns today's fingerprint of a configuration, as it follows `--config=`.

    Raises:
        InputError: the file cannot be loaded.
    """
    path, variant = papers.split_config(config)
    module = config_files.load(path)
    found = config_files.config_of(module, variant)
    return _of(found.to_dict(), config_files.sweep_of(module, found))


def _other_setting(there: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """Returns the first setting that has changed; one that is new and at its default has not."""
    settings = registry.load_settings(here["experiment"])
    defaults = files.plain(flatten(settings.default_config().to_dict()))
    for name in {**here, **there}:
        before = there.get(name) if name in there else defaults.get(name)
        if name not in here or here[name] != before:
            return name
    return None


def changed(config: str, published: Mapping[str, Any]) -> list[str]:
    """Returns the names of changes since a fingerprint was taken.

    Args:
        config: a configuration as it follows `--config=`.
        published: its fingerprint, from `of_folder`.

    Raises:
        InputError: its file cannot be loaded.
    """
    if not papers.split_config(config)[0].is_file():
        return ["the configuration is gone"]
    found, words = now(config), []
    if setting := _other_setting(published["settings"], found["settings"]):
        words.append(f"the setting {setting}")
    elif found["points"] != published["points"]:
        words.append(POINTS)
    if found["report"] != published["report"]:
        words.append(REPORT)
    return words
