"""What a run is, in numbers that its checkpoints hold, so that those of another run are refused.

They are the same in every process, on any devices and in a resumed run: programs are lowered for
one replica on a CPU, whatever they are compiled for. Each is 32 bits of a SHA-256.
"""

import functools
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from lsa_jax import backend
from lsa_jax.parallel import BATCH_AXIS, ReplicaLayout
from lsa_jax.training.optimizers import update
from lsa_jax.training.programs import Recipe, Source, make_epoch, make_evaluate, make_init

if TYPE_CHECKING:
    from lsa_jax.training.loop import Evaluation
    from lsa_jax.training.steps import NetworkState, Problem


def of_text(text: str) -> int:
    """Returns the number of a text."""
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def of_arrays(tree: PyTree) -> int:
    """Returns the number of types, shapes and bytes of a tree's arrays, in their order."""
    told = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        is_key = jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
        array = np.asarray(jax.random.key_data(leaf) if is_key else leaf)
        told.update(f"{array.dtype} {array.shape} ".encode())
        told.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return of_text(told.hexdigest())


def of_program(function: Callable, *arguments: PyTree) -> int:
    """Returns the number of a function's program, with all constants that it refers to.

    Args:
        function: of trees of arrays.
        arguments: arrays, or their shapes.
    """
    # A model of split batches averages over their axis, which must exist; here it has one part.
    forms = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype),
        jax.eval_shape(lambda *trees: trees, *arguments),
    )
    with backend.built_for("cpu"):
        traced = jax.jit(jax.vmap(function, axis_name=BATCH_AXIS)).trace(*forms)
        return of_text(traced.lower(lowering_platforms=("cpu",)).as_text())


def of_training(
    recipe: Recipe,
    sources: dict[str, Source],
    keys: Key[Array, " replicas"],
    replicas: PyTree,
    epochs: int,
    evaluation: "Evaluation",
) -> dict[str, int]:
    """Returns what decides the bits of `training.train`, each by its name.

    Args:
        recipe: how a replica is trained.
        sources: of training and test examples.
        keys: of the replicas.
        replicas: what varies between them.
        epochs: passes over the data.
        evaluation: on what the run is measured; of its functions the metrics alone are known.
    """
    recipe = recipe._replace(layout=ReplicaLayout(1, jax.local_devices()[:1]))
    train, last = sources["train"], sources.get("test", sources["train"])
    first = jax.eval_shape(lambda *trees: jax.tree.map(lambda a: a[0], trees), keys, replicas)
    init = make_init(recipe, train)
    state = jax.eval_shape(init, *first, train.arrays)
    evaluate = make_evaluate(recipe, last), state, first[1], last.arrays
    measuring = evaluation.measuring
    how = evaluation.every, evaluation.start, measuring.names, measuring.examples
    return {
        "keys": of_arrays(keys),
        "replicas": of_arrays(replicas),
        "epochs": epochs,
        "batch size": recipe.batch_size,
        "frozen parameters": of_text(repr(recipe.frozen)),
        "training examples": of_arrays(train.arrays),
        "test examples": of_arrays(sources["test"].arrays if "test" in sources else None),
        "initial parameters": of_program(init, *first, train.arrays),
        "model, loss or optimiser": of_program(
            make_epoch(recipe, train), state, *first, train.arrays
        ),
        "evaluation": of_text(f"{how} {of_program(*evaluate)}"),
    }


def of_steps(
    problem: "Problem", states: "NetworkState", start: int, stop: int, measured: np.ndarray
) -> dict[str, int]:
    """Returns what decides the bits of `steps.train_steps`, each by its name.

    Args:
        problem: what is minimised; of its batches the first alone is looked at.
        states: of the networks, at the start.
        start: number of the first step.
        stop: number after the last.
        measured: at which numbers the loss is measured.
    """
    one = jax.eval_shape(lambda tree: jax.tree.map(lambda a: a[0], tree), states)
    batch = jax.eval_shape(lambda tree: jax.tree.map(lambda a: a[0], tree), problem.validation)

    @functools.wraps(problem.optimizer.update)
    def updated(gradient: PyTree, state: PyTree, params: PyTree) -> PyTree:
        return update(
            problem.optimizer, gradient, state, params, 0.0, lambda p: (jnp.float32(0), p)
        )

    examples = problem.validation, problem.batches(start, 1) if start < stop else ()
    return {
        "data": of_text(f"{problem.checksum} {of_arrays(examples)}"),
        "networks at the start": of_arrays(states),
        "steps": of_arrays(np.array([start, stop, *measured])),
        "loss": of_program(problem.loss, one.params, batch),
        "optimiser": of_program(updated, one.params, one.opt_state, one.params),
    }
