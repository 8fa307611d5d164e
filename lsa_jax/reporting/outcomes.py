"""Results of a run on each test example, kept so that claims can pair learners by example."""

import base64
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from lsa_jax.reporting import files

_FILE = "outcomes.npz"


class Outcomes(NamedTuple):
    """Results of one run on each test example.

    Values are True or False for a correct or wrong answer, or float16 errors in units of the
    targets' standard deviation. Runs with equal `test` have the same examples in one order; a sweep
    fills it in, see `sweep.experiment.with_test`.
    """

    values: Shaped[np.ndarray, " examples"]
    test: str = ""

    def packed(self) -> dict[str, np.ndarray]:
        """Returns the arrays to be stored: one bit a correct or wrong answer."""
        arrays = {"test": np.array(self.test), "count": np.array(len(self.values))}
        if self.values.dtype == bool:
            return arrays | {"bits": np.packbits(self.values)}
        return arrays | {"errors": self.values.astype(np.float16)}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, np.ndarray]) -> "Outcomes":
        """Returns the outcomes that `packed` stored."""
        if "bits" in arrays:
            values = np.unpackbits(arrays["bits"], count=int(arrays["count"])).astype(bool)
        else:
            values = arrays["errors"]
        return cls(values, str(arrays["test"]))


def of_errors(
    squares: Float[np.ndarray, " examples"], targets: Float[np.ndarray, "examples c"]
) -> Outcomes:
    """Returns outcomes of a regression, from squared distances of its outputs from the targets."""
    errors = np.sqrt(squares / np.var(targets, axis=0).sum())
    return Outcomes(np.minimum(errors, np.finfo(np.float16).max).astype(np.float16))


def write(workdir: Path, run_id: str, outcomes: Outcomes) -> None:
    """Writes the outcomes of one run beside its result."""
    buffer = io.BytesIO()
    np.savez(buffer, **outcomes.packed())
    files.write_bytes(files.run_directory(workdir, run_id) / _FILE, buffer.getvalue())


def read(workdir: Path, run_ids: Iterable[str]) -> dict[str, Outcomes]:
    """Reads the outcomes of runs; runs that kept none are left out.

    Raises:
        InputError: a file is damaged.
    """
    found = {}
    for run_id in run_ids:
        path = files.run_directory(workdir, run_id) / _FILE
        if path.exists():
            arrays = files.read_array(path, files.remedy(path.parent))
            found[run_id] = Outcomes.unpacked(arrays)
    return found


def to_json(outcomes: Outcomes) -> dict[str, Any]:
    """Returns outcomes as JSON: bits and half-precision numbers in base 64."""
    arrays = outcomes.packed()
    kind = "bits" if "bits" in arrays else "errors"
    text = base64.b64encode(arrays[kind].tobytes()).decode()
    return {"test": outcomes.test, "count": len(outcomes.values), kind: text}


def from_json(content: Mapping[str, Any]) -> Outcomes:
    """Returns the outcomes that `to_json` wrote."""
    kind, dtype = ("bits", np.uint8) if "bits" in content else ("errors", np.float16)
    array = np.frombuffer(base64.b64decode(content[kind]), dtype)
    return Outcomes.unpacked({kind: array, "count": content["count"], "test": content["test"]})
