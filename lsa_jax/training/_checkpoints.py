"""Checkpoints of a training run, saved by orbax, so that a killed run goes on bit for bit.

A checkpoint directory holds one folder a saved step, `step_00000040`. Orbax writes a folder under a
temporary name and renames it, so a folder that is there is whole. A start looks for the highest
step; older folders and unfinished ones are removed after the next save.

Of several processes that run together, all call both functions. The first one alone reads and
writes, so the others need not see its disk.
"""

import re
import shutil
from pathlib import Path
from typing import TypeVar

import jax
import numpy as np
import orbax.checkpoint as ocp

from lsa_jax import processes
from lsa_jax.errors import InputError

Tree = TypeVar("Tree")

_NAME = re.compile(r"step_(\d{8})")


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
    """Saves a tree of arrays as the state after `step`, then removes what it replaces.

    The leaves are saved as a list, so any nesting of named tuples comes back as it was.
    """
    processes.everyone().on_first(lambda: _save(directory, step, tree))


def _save(directory: Path, step: int, tree: Tree) -> None:
    leaves = {f"{i:06d}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(tree))}
    target = _path(directory, step)
    with _checkpointer() as checkpointer:
        checkpointer.save(target, args=ocp.args.StandardSave(leaves), force=True)
    for entry in directory.iterdir():
        if entry.name != target.name:
            shutil.rmtree(entry)


def restore(directory: Path, template: Tree) -> tuple[int, Tree] | None:
    """Returns the latest saved step and its tree as numpy arrays, or None where nothing was saved.

    Args:
        directory: where `save` wrote.
        template: a tree of the same structure; its leaves' shapes and types are compared.

    Raises:
        InputError: the checkpoint holds other arrays than the template.
    """
    expected, structure = jax.tree.flatten(template)
    saved = processes.everyone().from_first(lambda: _restore(directory, expected))
    return None if saved is None else (saved[0], jax.tree.unflatten(structure, saved[1]))


def _restore(directory: Path, expected: list[np.ndarray]) -> tuple[int, list[np.ndarray]] | None:
    steps = _saved_steps(directory)
    if not steps:
        return None
    path = _path(directory, steps[-1])
    with _checkpointer() as checkpointer:
        saved = checkpointer.restore(path)
    leaves = [np.asarray(saved[name]) for name in sorted(saved)]
    found = [(leaf.shape, leaf.dtype) for leaf in leaves]
    wanted = [(np.shape(leaf), np.dtype(leaf.dtype)) for leaf in expected]
    if found != wanted:
        raise InputError(
            f"checkpoint {path} holds {len(found)} arrays that do not fit this run's "
            f"{len(wanted)}; remove the folder to start the run again"
        )
    return steps[-1], leaves
