"""Files of a sweep, written so that a kill at any moment leaves no half-written file.

A working directory holds `config.json`, `runs/<id>/` with `metrics.jsonl` and, written last,
`result.json`; after a report also `results.csv`, `report.md`, `.json` and `.html`, and the figures.
"""

import contextlib
import json
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from lsa_jax.checks import is_number
from lsa_jax.errors import InputError, StorageError
from lsa_jax.reporting.courses import COUNTERS, is_measured_alone


@contextlib.contextmanager
def storing(path: Path, size: int) -> Iterator[None]:
    """Turns an OSError while a file of this size is written into one line with the reason.

    Raises:
        StorageError: the disk is full, read-only or failing, or the folder may not be written.
    """
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written ({size:,} bytes): {error.strerror or error}; accepted: a "
            "folder that can be written, on a disk with room, where the same command then goes on"
        ) from error


def partial(path: Path) -> Path:
    """Returns the name under which a file is written before it is whole."""
    return path.with_name(f".{path.name}.partial")


def _write(path: Path, size: int, write: Callable[[BinaryIO], Any]) -> None:
    """Writes a whole file: under a temporary name, flushed to the disk, then renamed."""
    temporary = partial(path)
    with storing(path, size):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            if temporary.exists():
                temporary.unlink()  # it would take the little room that is left
            raise


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a whole file, so that a kill leaves the old one or the new one.

    Raises:
        StorageError: it cannot be written; an older file stays as it was.
    """
    _write(path, len(content), lambda file: file.write(content))


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays by name as a whole `.npz` file, as `write_bytes` does.

    Checksums of the arrays are in the file, so that `read_array` notices a flipped bit.
    """
    size = sum(array.nbytes for array in arrays.values())
    _write(path, size, lambda file: np.savez(file, **arrays))


def write_text(path: Path, content: str) -> None:
    """Writes a whole text file, as `write_bytes` does; names of files may be of any bytes."""
    write_bytes(path, content.encode(errors="surrogateescape"))


def plain(value: Any) -> Any:
    """Turns numbers and arrays of numpy and jax into JSON's; not finite ones become null."""
    if isinstance(value, dict):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _json(content: Any, indent: int | None = None) -> str:
    """Returns JSON of what `plain` makes of some content."""
    try:  # most content is plain already, and `plain` takes ten times as long
        return json.dumps(content, indent=indent, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(plain(content), indent=indent, allow_nan=False)


def write_json(path: Path, content: Any) -> None:
    """Writes `content` as indented JSON; numbers that are not finite become null."""
    write_text(path, _json(content, indent=2) + "\n")


# JSON, numpy and zipfile raise these on damaged files: RuntimeError where an entry is marked as
# encrypted, or is packed by an unknown method.
_DAMAGE = (ValueError, EOFError, KeyError, RuntimeError, tokenize.TokenError)
_DAMAGE += (zipfile.BadZipFile, zlib.error)


@contextlib.contextmanager
def _reading(path: Path, remedy: str) -> Iterator[None]:
    """Turns errors of a file that is damaged or cannot be read into one line with the remedy."""
    try:
        yield
    except (InputError, FileNotFoundError):  # the latter's meaning depends on the caller
        raise
    except _DAMAGE:
        raise InputError(f"{path} is damaged; {remedy}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; {remedy}") from None


def read_json(path: Path, remedy: str = "accepted: a file of JSON that can be read") -> Any:
    """Reads a JSON file.

    Raises:
        InputError: it is damaged, or there and cannot be read; ends with the remedy.
        FileNotFoundError: it is not there.
    """
    with _reading(path, remedy):
        return json.loads(path.read_text())


def read_object(path: Path, remedy: str) -> dict[str, Any]:
    """Reads a JSON file that holds names and values.

    Raises:
        InputError: it is damaged, holds something else, or is there and cannot be read; ends with
            the remedy.
        FileNotFoundError: it is not there.
    """
    found = read_json(path, remedy)
    if not isinstance(found, dict):
        raise InputError(f"{path} is damaged; {remedy}")
    return found


# The parts of a sweep's `config.json`, see `sweep.run`.
_RECORD = dict(
    config=dict, sweep=list, command=list, versions=dict, devices=list, groups=list, host=dict
)


def read_record(workdir: Path) -> dict[str, Any]:
    """Reads the `config.json` of a sweep's folder.

    Raises:
        InputError: it is damaged, or its parts have other types.
    """
    path = workdir / "config.json"
    remedy = "expected the record of a sweep; take another folder"
    record = read_object(path, remedy)
    for name, kind in _RECORD.items():
        if name in record and not isinstance(record[name], kind):
            raise InputError(f"{path} is damaged: {name} is {record[name]!r:.40}; {remedy}")
    if not all(isinstance(settings, dict) for settings in record.get("sweep", [])):
        raise InputError(f"{path} is damaged: sweep is not of points' settings; {remedy}")
    return record


def read_array(path: Path, remedy: str) -> Any:
    """Reads an array of a `.npy` file, or all of a `.npz` file's by their names.

    Raises:
        InputError: it is damaged, or there and cannot be read; ends with the remedy.
        FileNotFoundError: it is not there.
    """
    with _reading(path, remedy), open(path, "rb") as file:
        found = np.load(file)
        if isinstance(found, np.lib.npyio.NpzFile):
            return {name: found[name] for name in found.files}
        return found


def run_directory(workdir: Path, run_id: str) -> Path:
    """Returns the folder of one sweep point."""
    return workdir / "runs" / run_id


def write_run(
    workdir: Path, run_id: str, result: dict[str, Any], history: Iterable[dict[str, Any]]
) -> None:
    """Writes one point's `metrics.jsonl` and then `result.json`, which marks it as done."""
    directory = run_directory(workdir, run_id)
    lines = [_json(row) + "\n" for row in history]
    write_text(directory / "metrics.jsonl", "".join(lines))
    write_json(directory / "result.json", result)


def remedy(directory: Path) -> str:
    """Returns the way out where a file of a run is damaged."""
    return f"remove the folder {directory}, and the same command computes this run again"


def read_result(workdir: Path, run_id: str) -> dict[str, Any] | None:
    """Returns one point's result, or None where it is not done.

    Raises:
        InputError: it is damaged, another point's, or there and cannot be read.
    """
    directory = run_directory(workdir, run_id)
    path = directory / "result.json"
    try:
        result = read_object(path, remedy(directory))
    except FileNotFoundError:
        return None
    if result.get("id") != run_id:
        raise InputError(f"{path} is of run {result.get('id')!r}; {remedy(directory)}")
    if wrong := _mistake(result):
        raise InputError(f"{path} is damaged: {wrong}; {remedy(directory)}")
    return result


def _mistake(result: dict[str, Any]) -> str:
    """Returns what no point's result has; "" where there is nothing of the kind."""
    if result.get("status") not in ("ok", "failed"):
        return f"status is {result.get('status')!r}; expected 'ok' or 'failed'"
    for name, value in result.items():
        counts = name == "seconds" or name.startswith(("test_", "train_"))
        if counts and not (value is None or is_number(value)):
            return f"{name} is {value!r}; expected a number"
    return ""


def check_run(result: dict[str, Any], history: Iterable[Any]) -> None:
    """Raises `ValueError` where `write_run` would write what cannot be read again."""
    rows = "" if all(map(_is_row, history)) else "a row is no dictionary, or its step no number"
    if wrong := _mistake(plain(result)) or rows:
        raise ValueError(f"run {result.get('id')} cannot be kept: {wrong}")


def _is_row(row: Any) -> bool:
    """Whether a row of metrics has names, and numbers in the columns that number it."""
    return isinstance(row, dict) and all(is_number(plain(row.get(n, 0))) for n in COUNTERS)


def is_missing(workdir: Path, run_ids: Iterable[str]) -> bool:
    """Whether a run has no result yet."""
    return any(read_result(workdir, run_id) is None for run_id in run_ids)


def read_all_metrics(workdir: Path, run_id: str) -> list[dict[str, Any]]:
    """Returns the rows of one point's `metrics.jsonl`.

    Raises:
        InputError: it is missing or damaged, or cannot be read.
    """
    directory = run_directory(workdir, run_id)
    path = directory / "metrics.jsonl"
    try:
        with _reading(path, remedy(directory)):
            rows = [json.loads(line) for line in path.read_text().splitlines()]
    except FileNotFoundError:
        raise InputError(f"{path} is missing; {remedy(directory)}") from None
    if not all(map(_is_row, rows)):
        raise InputError(f"{path} is damaged; {remedy(directory)}")
    return rows


def read_metrics(workdir: Path, run_id: str) -> list[dict[str, Any]]:
    """Returns the rows of `read_all_metrics` without those of measures along training alone."""
    return [row for row in read_all_metrics(workdir, run_id) if not is_measured_alone(row)]


def read_histories(workdir: Path, results: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Returns one row a line of every run's history, after these columns of its result."""
    rows = [
        {name: result[name] for name in columns} | row
        for result in results.to_dict("records")
        for row in read_metrics(workdir, result["id"])
    ]
    return pd.DataFrame(rows, columns=None if rows else list(columns))


def read_results(workdir: Path, run_ids: Iterable[str]) -> pd.DataFrame:
    """Returns one row for each of the points that are done, in the order given."""
    results = [read_result(workdir, run_id) for run_id in run_ids]
    return pd.DataFrame([result for result in results if result is not None])
