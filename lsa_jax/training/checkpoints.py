"""Checkpoints of a training run, saved by orbax, so that a killed run goes on bit for bit.

A checkpoint directory holds one folder a saved step, `step_00000040`. Orbax writes a folder under a
temporary name and renames it; then the checksums of its files are added. A start looks for the
highest step whose files have them: orbax itself would take a flipped bit for a number. The step
before it is kept in case the disk damages the last; older steps and unfinished ones are removed
after the next save, and nothing else that lies there.

Of several processes that run together, all call both functions. The first one alone reads and
writes, so the others need not see its disk.
"""

import hashlib
import logging
import os
import re
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp

from lsa_jax import backend, processes
from lsa_jax.errors import DamageWarning, InputError, StorageError
from lsa_jax.reporting import files

Tree = TypeVar("Tree")

_NAME = re.compile(r"step_(\d{8})")

# What `save` makes: steps, and what orbax calls them until they are whole.
_OWN = re.compile(rf"{_NAME.pattern}(\.orbax-checkpoint-tmp.*)?")

_CHECKSUMS = "sha256.json"

# What a leaf's entries in orbax's own files, and blocks that are not full, take at most.
_OVERHEAD = 2**14


def _saved_steps(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    matches = (_NAME.fullmatch(entry.name) for entry in directory.iterdir())
    return sorted(int(match[1]) for match in matches if match)


def _path(directory: Path, step: int) -> Path:
    return directory.absolute() / f"step_{step:08d}"


def _checkpointer() -> ocp.Checkpointer:
    # By itself orbax would have every process of jax take part.
    alone = ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0})
    handler = ocp.StandardCheckpointHandler(multiprocessing_options=alone)
    return ocp.Checkpointer(handler, multiprocessing_options=alone)


def save(directory: Path, step: int, tree: Tree) -> None:
    """Saves a tree of arrays as the state after `step`, then removes the steps that it replaces.

    Nothing is saved in a dry run.

    The leaves are saved as a list, so any nesting of named tuples comes back as it was.

    Raises:
        StorageError: the disk does not take it; earlier checkpoints stay.
    """
    if backend.dry_run() is None:
        processes.everyone().on_first(lambda: _save(directory, step, tree))


def _checksums(path: Path) -> dict[str, str]:
    """Returns the SHA-256 of every file of a saved step, by its name in the folder."""
    found = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name != _CHECKSUMS:
            with open(file, "rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            found[file.relative_to(path).as_posix()] = digest
    return found


def _check_room(directory: Path, size: int) -> None:
    """Raises OSError where a disk will not take so many bytes, of which orbax would tell pages."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory) as file:
        if hasattr(os, "posix_fallocate"):  # not on macOS
            os.posix_fallocate(file.fileno(), 0, size)


def _write(path: Path, leaves: dict[str, np.ndarray]) -> None:
    """Writes a step's folder.

    Raises:
        StorageError: the disk does not take it.
    """
    size = sum(leaf.nbytes + _OVERHEAD for leaf in leaves.values())
    with files.storing(path, size):
        _check_room(path.parent, size)
        logging.disable()  # orbax logs what it raises, too, and what a kill has left
        try:
            with _checkpointer() as checkpointer:
                checkpointer.save(path, args=ocp.args.StandardSave(leaves), force=True)
        except ValueError as error:  # tensorstore's, for all that a disk may refuse
            raise StorageError(f"{path} cannot be written: {str(error)[:200]}") from error
        finally:
            logging.disable(logging.NOTSET)
    files.write_json(path / _CHECKSUMS, _checksums(path))


def _save(directory: Path, step: int, tree: Tree) -> None:
    target = _path(directory, step)
    _write(target, {f"{i:06d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))})
    before = [saved for saved in _saved_steps(directory) if saved < step]
    kept = {target.name, *(_path(directory, last).name for last in before[-1:])}
    for entry in directory.iterdir():
        if _OWN.fullmatch(entry.name) and entry.name not in kept and entry.is_dir():
            shutil.rmtree(entry)


def restore(directory: Path, template: Tree) -> tuple[int, Tree] | None:
    """Returns the latest saved step and its tree as numpy arrays, or None where nothing was saved.

    Args:
        directory: where `save` wrote.
        template: a tree of the same structure; its leaves' shapes and types are compared.

    Raises:
        InputError: the checkpoint holds other arrays than the template.

    Warns:
        DamageWarning: a checkpoint's files are not what was written; the one before it is taken.
    """
    expected, structure = jax.tree.flatten(template)
    saved = processes.everyone().from_first(lambda: _restore(directory, expected))
    return None if saved is None else (saved[0], jax.tree.unflatten(structure, saved[1]))


def _is_whole(path: Path) -> bool:
    """Whether a step's files are as they were written."""
    try:
        recorded = files.read_json(path / _CHECKSUMS)
    except (FileNotFoundError, InputError):
        return False
    return recorded == _checksums(path)


def _whole_step(directory: Path) -> int | None:
    """Returns the latest step that is not damaged; says which ones are."""
    steps = _saved_steps(directory)
    while steps:
        step = steps.pop()
        if _is_whole(_path(directory, step)):
            return step
        instead = f"goes on from step {steps[-1]}" if steps else "starts again"
        warnings.warn(
            f"checkpoint {_path(directory, step)} is damaged, or its save was cut short; the run "
            f"{instead}",
            DamageWarning,
            stacklevel=2,
        )
    return None


def _restore(directory: Path, expected: list[np.ndarray]) -> tuple[int, list[np.ndarray]] | None:
    step = _whole_step(directory)
    if step is None:
        return None
    path = _path(directory, step)
    with _checkpointer() as checkpointer:
        saved = checkpointer.restore(path)
    leaves = [np.asarray(saved[name]) for name in sorted(saved)]
    found = [(leaf.shape, leaf.dtype) for leaf in leaves]
    wanted = [(np.shape(leaf), np.dtype(leaf.dtype)) for leaf in expected]
    if found != wanted:
        raise InputError(
            f"checkpoint {path} is of another run: {_difference(found, wanted)}; remove the folder "
            f"{directory} to start the run again"
        )
    return step, leaves


def _difference(found: list[tuple], wanted: list[tuple]) -> str:
    """Says how shapes and types of a checkpoint's arrays first differ from those of the run."""
    for place, forms in enumerate(zip(found, wanted, strict=False)):
        its, own = (f"{dtype}{list(shape)}" for shape, dtype in forms)
        if its != own:
            return f"its array {place} is {its}, and this run's is {own}"
    return f"it holds {len(found)} arrays, and this run's state has {len(wanted)}"
