"""The results of a sweep in one small file of the gallery, from which its report is made again.

Runs take hours and their report a second: when a rule of claims changes, every report is made again
from kept results.
"""

import json
import lzma
from pathlib import Path
from typing import Any

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, outcomes
from lsa_jax.sweep import config_files

# Of the unpacked text; checked while it is read, as a few bytes can stand for many.
MOST_BYTES = 500_000_000


def _record(folder: Path) -> dict[str, Any]:
    """Returns a sweep's record, without the folders of the machine it ran on."""
    record = files.read_json(folder / "config.json")
    named = f"--config={config_files.named_in(record['command'])}"
    fields = [word for word in record["command"] if word.startswith("--config.")]
    return record | {"command": ["launch.sweep", named, *fields]}


def pack(folder: Path) -> bytes | None:
    """Returns the settings, results and histories of a finished sweep, as compressed JSON.

    The same runs give the same bytes. None where the report draws arrays of its groups, which are
    as large as the figures.

    Raises:
        InputError: a file of the folder is damaged.
    """
    if any(folder.glob("groups/*/*.npy")):
        return None
    ids = [path.parent.name for path in sorted(folder.glob("runs/*/result.json"))]
    of_examples = outcomes.read(folder, ids)
    runs = [
        {"result": files.read_result(folder, run), "history": files.read_all_metrics(folder, run)}
        | ({"outcomes": outcomes.to_json(of_examples[run])} if run in of_examples else {})
        for run in ids
    ]
    content = json.dumps({"record": _record(folder), "runs": runs}, allow_nan=False)
    return lzma.compress(content.encode(), preset=9)


def _unpacked(content: bytes, path: Path) -> dict[str, Any]:
    try:
        text = lzma.LZMADecompressor().decompress(content, MOST_BYTES)
        found = json.loads(text)
        return {"record": dict(found["record"]), "runs": list(found["runs"])}
    except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError):
        raise InputError(
            f"{path} is damaged; publish its sweep again, or remove it and lose its results"
        ) from None


def seconds(path: Path) -> dict[str, float]:
    """Returns the seconds of each run of kept results, by its id.

    Raises:
        InputError: the file is damaged.
    """
    results = (run["result"] for run in _unpacked(path.read_bytes(), path)["runs"])
    return {result["id"]: result["seconds"] for result in results}


def unpack(path: Path, folder: Path) -> None:
    """Unpacks results into a folder, as the sweep left it before its first report.

    Raises:
        InputError: the file is damaged.
    """
    found = _unpacked(path.read_bytes(), path)
    files.write_json(folder / "config.json", found["record"])
    for run in found["runs"]:
        if "outcomes" in run:
            outcomes.write(folder, run["result"]["id"], outcomes.from_json(run["outcomes"]))
        files.write_run(folder, run["result"]["id"], run["result"], run["history"])
