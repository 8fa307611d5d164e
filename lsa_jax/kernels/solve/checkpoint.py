"""A file that keeps the state of a long solution."""

import hashlib
import time
from pathlib import Path
from typing import Any

import numpy as np

from lsa_jax.errors import InputError
from lsa_jax.reporting import files

# Seconds between two states that are kept.
_SAVE_EVERY = 60.0

_REMEDY = "remove it to have the solution begin again"


class Checkpoint:
    """A file with the last state of one system alone."""

    def __init__(self, path: Path | str | None, parts: str, *system: Any) -> None:
        """Takes a place, a name that ends in .npz or None, and a system.

        Its arrays and numbers identify the system; `parts` are their names, for messages.
        """
        self._path = None if path is None else Path(path)
        digest = hashlib.sha256()
        for part in system:
            digest.update(np.ascontiguousarray(part).tobytes())
        self._parts, self._system, self._saved = parts, digest.hexdigest(), time.monotonic()

    def read(self) -> dict[str, np.ndarray] | None:
        """Returns the arrays of the state; None where there are none.

        Raises:
            InputError: the file is damaged, or of another system.
        """
        if self._path is None or not self._path.exists():
            return None
        content = files.read_array(self._path, _REMEDY)
        self.check(isinstance(content, dict) and str(content.pop("system", "")) == self._system)
        return content

    def check(self, same: bool) -> None:
        """Raises InputError where the file is not of the same system."""
        if not same:
            raise InputError(
                f"checkpoint is {self._path}, of another {self._parts}; accepted: another path, or "
                "the same system"
            )

    def write(self, state: dict[str, Any], *, now: bool = False) -> None:
        """Keeps a state, if the last one was kept a minute ago."""
        if self._path is None or not (now or time.monotonic() - self._saved > _SAVE_EVERY):
            return
        content = {"system": self._system, **state}
        files.write_arrays(self._path, {name: np.asarray(a) for name, a in content.items()})
        self._saved = time.monotonic()
