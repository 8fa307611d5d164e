"""Checkpoints of a training run, and the program text that identifies the run.

A directory holds one file a saved step, `step_00000040.npz`, with checksums of its arrays. A start
reads the highest step whose file is whole. The step before it is kept in case the disk damages the
last; older ones are removed after the next save, and nothing else.

All of several processes that run together call both functions. Only the first reads and writes, so
the others need not share its disk.

A checkpoint holds hashes of its run, and another run's is refused. They are equal in every process,
on any devices and in a resumed run: programs are lowered for one replica on a CPU, whatever they
are compiled for.
"""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from lsa_jax import backend, processes
from lsa_jax.errors import DamageWarning, InputError
from lsa_jax.parallel import as_one_part
from lsa_jax.reporting import files

Tree = TypeVar("Tree")

# Files that `save` makes: of a step, and of one whose save was killed.
_NAME = re.compile(r"step_(\d{8})\.npz|\.step_\d{8}\.npz\.partial")


def _path(directory: Path, step: int) -> Path:
    return directory / f"step_{step:08d}.npz"


def _saved(directory: Path) -> dict[Path, int | None]:
    """Returns the files that are there, in the order of their steps; None of unfinished ones."""
    found = {}
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if (match := _NAME.fullmatch(path.name)) and path.is_file():
            found[path] = match[1] and int(match[1])
    return found


def save(directory: Path, step: int, tree: Tree) -> None:
    """Saves a tree of arrays as the state after `step`, then removes the steps that it replaces.

    Leaves are saved as a list, so any nesting of named tuples is restored.

    Raises:
        StorageError: the disk cannot hold it; earlier checkpoints stay.
    """
    leaves = jax.tree.leaves(tree)
    processes.everyone().on_first(lambda: _save(directory, step, leaves))


def _save(directory: Path, step: int, leaves: list[Any]) -> None:
    arrays = {str(place): np.asarray(leaf) for place, leaf in enumerate(leaves)}
    # By name, as numpy's files have no types of its extensions, such as bfloat16.
    types = np.array([str(array.dtype) for array in arrays.values()])
    target, before = _path(directory, step), _saved(directory)
    files.write_arrays(target, {"types": types} | arrays)
    earlier = [path for path, saved in before.items() if saved is not None and saved < step]
    for path in before.keys() - {target, *earlier[-1:]}:
        path.unlink(missing_ok=True)


def restore(directory: Path, template: Tree) -> tuple[int, Tree] | None:
    """Returns the latest saved step and its tree as numpy arrays, or None where nothing was saved.

    Args:
        directory: where `save` wrote.
        template: a tree of the same structure; its leaves' shapes and types are compared.

    Raises:
        InputError: the checkpoint holds other arrays than the template.

    Warns:
        DamageWarning: a checkpoint's file is damaged; the one before it is taken.
    """
    expected, structure = jax.tree.flatten(template)
    saved = processes.everyone().from_first(lambda: _restore(directory, expected))
    return None if saved is None else (saved[0], jax.tree.unflatten(structure, saved[1]))


def _restore(directory: Path, expected: list[Any]) -> tuple[int, list[np.ndarray]] | None:
    steps = [step for step in _saved(directory).values() if step is not None]
    while steps:
        step = steps.pop()
        path = _path(directory, step)
        try:
            leaves = _read(path)
            break
        except (InputError, LookupError, TypeError, ValueError):
            instead = f"goes on from step {steps[-1]}" if steps else "starts again"
            warnings.warn(
                f"checkpoint {path} is damaged; the run {instead}", DamageWarning, stacklevel=2
            )
    else:
        return None
    found = [(leaf.shape, leaf.dtype) for leaf in leaves]
    wanted = [(np.shape(leaf), np.dtype(leaf.dtype)) for leaf in expected]
    if found != wanted:
        raise InputError(
            f"checkpoint {path} is of another run: {_difference(found, wanted)}; remove the folder "
            f"{directory} to start the run again"
        )
    return step, leaves


def _read(path: Path) -> list[np.ndarray]:
    arrays = files.read_array(path, "accepted: a file that training saved")
    types = arrays.pop("types").tolist()
    return [arrays[str(place)].view(kind) for place, kind in enumerate(types)]


def _difference(found: list[tuple], wanted: list[tuple]) -> str:
    """Returns the first difference between arrays of a checkpoint and of the run, in words."""
    for place, forms in enumerate(zip(found, wanted, strict=False)):
        its, own = (f"{dtype}{list(shape)}" for shape, dtype in forms)
        if its != own:
            return f"its array {place} is {its}, and this run's is {own}"
    return f"it holds {len(found)} arrays, and this run's state has {len(wanted)}"


def program_text(function: Callable, *arguments: Any) -> tuple[str, Any]:
    """Returns a function's program for one part on a CPU, with all constants that it refers to.

    Arguments are trees of arrays, or of their shapes. The second result is the tree of the
    function's results, as shapes.
    """
    mapped, forms = as_one_part(function, *arguments)
    with backend.built_for("cpu"):
        traced = jax.jit(mapped).trace(*forms)
        text = traced.lower(lowering_platforms=("cpu",)).as_text()
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), traced.out_info)
    return text, one
