"""Checkpoints of a training run, saved by orbax, and hashes that identify the run.

A directory holds one folder a saved step, `step_00000040`. Orbax writes a folder under a temporary
name and renames it; then checksums of its files are added, because orbax does not notice a flipped
bit. A start reads the highest step whose files match them. The step before it is kept in case the
disk damages the last; older steps and unfinished ones are removed after the next save, and nothing
else.

All of several processes that run together call both functions. Only the first reads and writes, so
the others need not share its disk.

A checkpoint holds hashes of its run, and another run's is refused. They are equal in every process,
on any devices and in a resumed run: programs are lowered for one replica on a CPU, whatever they
are compiled for.
"""

import hashlib
import logging
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp

from lsa_jax import backend, processes
from lsa_jax.errors import DamageWarning, InputError, StorageError
from lsa_jax.parallel import as_one_part
from lsa_jax.reporting import files

Tree = TypeVar("Tree")

_NAME = re.compile(r"step_(\d{8})")

# The names that `save` makes: steps, and orbax's names of unfinished ones.
_OWN = re.compile(rf"{_NAME.pattern}(\.orbax-checkpoint-tmp.*)?")

_CHECKSUMS = "sha256.json"

# The most that a leaf's entries in orbax's own files, and blocks that are not full, take.
_OVERHEAD = 2**14


def _path(directory: Path, step: int) -> Path:
    return directory.absolute() / f"step_{step:08d}"


def _saved_steps(directory: Path) -> list[int]:
    if not directory.is_dir():
        return []
    matches = (_NAME.fullmatch(entry.name) for entry in directory.iterdir())
    return sorted(int(match[1]) for match in matches if match)


def _checkpointer() -> ocp.Checkpointer:
    # By default every process of jax would take part.
    alone = ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0})
    handler = ocp.StandardCheckpointHandler(multiprocessing_options=alone)
    return ocp.Checkpointer(handler, multiprocessing_options=alone)


def save(directory: Path, step: int, tree: Tree) -> None:
    """Saves a tree of arrays as the state after `step`, then removes the steps that it replaces.

    Nothing is saved in a dry run. Leaves are saved as a list, so any nesting of named tuples
    is restored.

    Raises:
        StorageError: the disk cannot hold it; earlier checkpoints stay.
    """
    if backend.dry_run() is None:
        processes.everyone().on_first(lambda: _save(directory, step, tree))


def _save(directory: Path, step: int, tree: Tree) -> None:
    target = _path(directory, step)
    _write(target, {f"{i:06d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))})
    before = [saved for saved in _saved_steps(directory) if saved < step]
    kept = {target.name, *(_path(directory, last).name for last in before[-1:])}
    for entry in directory.iterdir():
        if _OWN.fullmatch(entry.name) and entry.name not in kept and entry.is_dir():
            shutil.rmtree(entry)


def _write(path: Path, leaves: dict[str, np.ndarray]) -> None:
    """Writes a step's folder.

    Raises:
        StorageError: the disk cannot hold it.
    """
    size = sum(leaf.nbytes + _OVERHEAD for leaf in leaves.values())
    with files.storing(path, size):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            if hasattr(os, "posix_fallocate"):  # not on macOS
                os.posix_fallocate(file.fileno(), 0, size)  # one short error on a full disk
        logging.disable()  # orbax also logs its exceptions, and the remains of a kill
        try:
            with _checkpointer() as checkpointer:
                checkpointer.save(path, args=ocp.args.StandardSave(leaves), force=True)
        except ValueError as error:  # tensorstore's, for anything that a disk may refuse
            raise StorageError(f"{path} cannot be written: {str(error)[:200]}") from error
        finally:
            logging.disable(logging.NOTSET)
    files.write_json(path / _CHECKSUMS, _checksums(path))


def _checksums(path: Path) -> dict[str, str]:
    """Returns the SHA-256 of every file of a saved step, by its name in the folder."""
    found = {}
    for file in sorted(path.rglob("*")):
        if file.is_file() and file.name != _CHECKSUMS:
            with open(file, "rb") as content:
                own = hashlib.file_digest(content, "sha256").hexdigest()
            found[file.relative_to(path).as_posix()] = own
    return found


def restore(directory: Path, template: Tree) -> tuple[int, Tree] | None:
    """Returns the latest saved step and its tree as numpy arrays, or None where nothing was saved.

    Args:
        directory: where `save` wrote.
        template: a tree of the same structure; its leaves' shapes and types are compared.

    Raises:
        InputError: the checkpoint holds other arrays than the template.

    Warns:
        DamageWarning: a checkpoint's files are damaged; the one before it is taken.
    """
    expected, structure = jax.tree.flatten(template)
    saved = processes.everyone().from_first(lambda: _restore(directory, expected))
    return None if saved is None else (saved[0], jax.tree.unflatten(structure, saved[1]))


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


def _whole_step(directory: Path) -> int | None:
    """Returns the latest step that is not damaged; warns of later ones."""
    steps = _saved_steps(directory)
    while steps:
        step = steps.pop()
        path = _path(directory, step)
        try:
            if files.read_json(path / _CHECKSUMS) == _checksums(path):
                return step
        except (FileNotFoundError, InputError):
            pass
        instead = f"goes on from step {steps[-1]}" if steps else "starts again"
        warnings.warn(
            f"checkpoint {path} is damaged, or its save was cut short; the run {instead}",
            DamageWarning,
            stacklevel=2,
        )
    return None


def _difference(found: list[tuple], wanted: list[tuple]) -> str:
    """Returns the first difference between arrays of a checkpoint and of the run, in words."""
    for place, forms in enumerate(zip(found, wanted, strict=False)):
        its, own = (f"{dtype}{list(shape)}" for shape, dtype in forms)
        if its != own:
            return f"its array {place} is {its}, and this run's is {own}"
    return f"it holds {len(found)} arrays, and this run's state has {len(wanted)}"


def program_text(function: Callable, *arguments: Any) -> str:
    """Returns a function's program for one part on a CPU, with all constants that it refers to.

    Arguments are trees of arrays, or of their shapes.
    """
    mapped, forms = as_one_part(function, *arguments)
    with backend.built_for("cpu"):
        return jax.jit(mapped).trace(*forms).lower(lowering_platforms=("cpu",)).as_text()
