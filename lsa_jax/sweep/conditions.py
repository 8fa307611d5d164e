"""Conditions of a sweep's results apart from its settings: package versions, devices, data.

They are recorded when a sweep starts. If they differ when it resumes, one line warns.
"""

import warnings
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lsa_jax import processes
from lsa_jax.errors import MixedDataWarning, MixedDevicesWarning, MixedVersionsWarning
from lsa_jax.reporting import files, machine

_PACKAGES = ("lsa_jax", "jax", "jaxlib", "flax", "optax", "neural-tangents", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Returns the versions of the installed packages that results depend on."""
    found = {one.name.lower() for one in metadata.distributions() if one.name in _PACKAGES}
    return {name: metadata.version(name) for name in _PACKAGES if name in found}


def devices() -> list[str]:
    """Returns the devices of all processes, each with its kind."""
    return [f"{device} ({device.device_kind})" for device in jax.devices()]


def digest(data: Any) -> int:
    """Returns 32 bits of the types, shapes and contents of data's arrays, numbers and texts.

    They are the same in every process and on any device. Other objects, such as a tokenizer, are
    left out; the tokens that it makes are included.

    Args:
        data: a tree, from `Experiment.load`.
    """
    found = 0
    for leaf in jax.tree.leaves(data):
        if isinstance(leaf, str):
            found = zlib.crc32(f"{leaf!r} ".encode(), found)
        elif isinstance(leaf, bool | int | float | np.ndarray | np.generic | jax.Array):
            is_key = jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
            array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
            found = zlib.crc32(f"{array.dtype} {array.shape} ".encode(), found)
            found = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8), found)
    return found


def _changes(record: dict[str, Any], digests: set[int]) -> list[tuple[str, type[Warning]]]:
    """Returns the differences from a sweep's record in words, each with its warning."""
    found, changes = versions(), []
    recorded = record.get("versions", {})
    if others := [name for name in recorded if recorded[name] != found.get(name)]:
        words = ", ".join(f"{name} {recorded[name]} -> {found.get(name)}" for name in others)
        changes.append((f"with other versions ({words})", MixedVersionsWarning))
    before, now = (machine.kinds(names) for names in (record.get("devices", []), devices()))
    if before and set(before) != set(now):  # tasks on other machines have none
        words = " -> ".join(", ".join(sorted(kinds)) for kinds in (before, now))
        changes.append((f"on other devices ({words})", MixedDevicesWarning))
    if record.get("data") is not None and digests != {record["data"]}:  # earlier ones have none
        changes.append(("with other data than are found now", MixedDataWarning))
    return changes


def warn_of_changes(workdir: Path, data: Any) -> None:
    """Warns where a sweep started with other versions, devices or data than it resumes with.

    All processes that work together call it; the first alone sees the folder.

    Args:
        workdir: the folder with the sweep's record.
        data: loaded by this process.
    """
    everyone = processes.everyone()
    digests = set(everyone.gather(np.uint32(digest(data))).tolist())

    def warn() -> None:
        for change, category in _changes(files.read_record(workdir), digests):
            warnings.warn(
                f"--workdir {workdir} was begun {change}; its results may not be those of either "
                "alone",
                category,
                stacklevel=2,
            )

    everyone.on_first(warn)
