"""What a run leaves on disk, written so that a kill at any moment leaves no half-written file.

A working directory holds `config.json`, `runs/<id>/` with `metrics.jsonl` and, written last,
`result.json`; after a report also `results.csv`, `report.md`, `report.json` and the figures.
"""

import json
import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a whole file: to a temporary name beside it, flushed to the disk, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_text(path: Path, content: str) -> None:
    """Writes a whole text file, as `write_bytes` does."""
    write_bytes(path, content.encode())


def plain(value: Any) -> Any:
    """Turns numpy's numbers and arrays into what JSON knows; not-a-number becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def write_json(path: Path, content: Any) -> None:
    """Writes `content` as indented JSON; numbers that are not finite become null."""
    write_text(path, json.dumps(plain(content), indent=2, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Reads a JSON file."""
    return json.loads(path.read_text())


def run_directory(workdir: Path, run_id: str) -> Path:
    """Returns the folder of one sweep point."""
    return workdir / "runs" / run_id


def write_run(
    workdir: Path, run_id: str, result: dict[str, Any], history: Iterable[dict[str, Any]]
) -> None:
    """Writes one point's `metrics.jsonl` and then `result.json`, which marks it as done."""
    directory = run_directory(workdir, run_id)
    lines = [json.dumps(plain(row), allow_nan=False) + "\n" for row in history]
    write_text(directory / "metrics.jsonl", "".join(lines))
    write_json(directory / "result.json", result)


def read_result(workdir: Path, run_id: str) -> dict[str, Any] | None:
    """Returns one point's result, or None where it is not done."""
    path = run_directory(workdir, run_id) / "result.json"
    return read_json(path) if path.exists() else None


def read_metrics(workdir: Path, run_id: str) -> list[dict[str, Any]]:
    """Returns the rows of one point's `metrics.jsonl`."""
    path = run_directory(workdir, run_id) / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


def read_results(workdir: Path, run_ids: Iterable[str]) -> pd.DataFrame:
    """Returns one row for each of the points that are done, in the order given."""
    results = [read_result(workdir, run_id) for run_id in run_ids]
    return pd.DataFrame([result for result in results if result is not None])
