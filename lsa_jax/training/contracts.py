"""Checks that data, network, loss, metrics and optimiser fit together, before training starts."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from lsa_jax import backend
from lsa_jax.arrays import random_key
from lsa_jax.errors import InputError
from lsa_jax.models.model import ExampleShape, Model
from lsa_jax.parallel import BATCH_AXIS
from lsa_jax.training import losses
from lsa_jax.training.optimizers import check_optimizer
from lsa_jax.training.programs import Recipe, Source, split

_CONTRACT = "accepted: (outputs, targets) -> [n], one number for each of n examples"


def check_keys(
    key: Key[Array, "..."], replicas: PyTree
) -> tuple[Key[Array, " replicas"], PyTree, bool]:
    """Returns keys and values of replicas, and whether a single key was given.

    Raises:
        InputError: no key or keys of jax.random, or values of another number of replicas.
    """
    key = random_key("key", key, "...")
    if key.ndim > 1 or not key.size:
        raise InputError(
            f"key has shape {key.shape}; accepted: one key, or keys [replicas] of jax.random.split"
        )
    if key.ndim == 0:
        return key[None], jax.tree.map(lambda a: jnp.asarray(a)[None], replicas), True
    for path, leaf in jax.tree_util.tree_leaves_with_path(replicas):
        if np.shape(leaf)[:1] != key.shape:
            raise InputError(
                f"replicas{jax.tree_util.keystr(path)} has shape {np.shape(leaf)}; accepted: "
                f"[{len(key)}, ...], a value for each key"
            )
    return key, replicas, False


class Forms(NamedTuple):
    """Shapes and types for a few examples: parameters, state, outputs and targets [n, ...]."""

    params: PyTree
    state: dict[str, PyTree]
    outputs: PyTree
    targets: PyTree


def _forms_of(
    model: Model, source: Source, keys: Key[Array, " replicas"], replicas: PyTree
) -> Forms:
    """Returns the forms of a network on a source's examples; nothing is computed."""

    def run(count: int) -> Forms:
        def compute(key: Array, replica: PyTree, index: Array, arrays: PyTree) -> Forms:
            batch = source.fetch(arrays, replica, index, jnp.int32(0))
            params = model.init(key, ExampleShape.of(batch.inputs))
            state = model.next_state(params, batch.inputs, key) if model.next_state else {}
            return Forms(params, state, model.apply(params, batch.inputs), batch.targets)

        # A model of split batches averages over their axis, which must exist; here it has one part.
        given = jax.tree.map(lambda a: a[:1], (keys, replicas))
        mapped = jax.vmap(compute, (0, 0, None, None), axis_name=BATCH_AXIS)
        index = jax.ShapeDtypeStruct((count,), jnp.int32)
        try:
            found = jax.eval_shape(mapped, *given, index, source.arrays)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # of any library that networks are written with
            line = str(error).strip().partition("\n")[0]
            shape = f"of shape {source.arrays.inputs.shape}" if source.is_plain else "of its source"
            raise InputError(
                f"model fails for inputs {shape} ({type(error).__name__}: {line}); accepted: "
                "inputs that init(key, shape of one) and apply(params, inputs) take"
            ) from error
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), found)

    found = run(3)
    # Where there are as many examples as outputs, a result [c] would pass for one [n].
    return run(5) if np.shape(found.outputs)[1:] == (3,) else found


def fitted(
    recipe: Recipe,
    metrics: dict[str, Callable] | None,
    sources: dict[str, Source],
    keys: Key[Array, " replicas"],
    replicas: PyTree,
) -> Recipe:
    """Checks a recipe against the examples and fills in its metrics and the network's state.

    Args:
        recipe: how a replica is trained.
        metrics: by name; None is accuracy, where outputs can be right or wrong.
        sources: of training examples, as "train", and of others.
        keys: of replicas.
        replicas: values that vary between replicas.

    Raises:
        InputError: the loss, a metric or the optimiser does not fit.
    """
    forms = {name: _forms_of(recipe.model, s, keys, replicas) for name, s in sources.items()}
    targets = {name: _known_targets(source) for name, source in sources.items()}
    if metrics is None:
        # One output with targets of zero is a regression, in which nothing is right or wrong.
        one_output = np.shape(forms["train"].outputs)[1:] == (1,)
        zeros = any(t is not None and bool((t == 0).any()) for t in targets.values())
        metrics = {} if one_output and zeros else {"accuracy": losses.is_correct}
    functions = {f"evaluation.metrics[{name!r}]": metric for name, metric in metrics.items()}
    for called, function in ({"loss": recipe.loss} | functions).items():
        for name in sources:
            where = "data" if name == "train" else "evaluation.test"
            _check_function(called, function, forms[name], targets[name], where)
    frozen = (*recipe.frozen, *forms["train"].state)
    trained = split(forms["train"].params, frozen)[0]
    check_optimizer(recipe.optimizer(jax.tree.map(lambda a: a[0], replicas)), trained)
    return recipe._replace(metrics=metrics, frozen=frozen)


def _known_targets(source: Source) -> Array | np.ndarray | None:
    """Returns the targets of a plain data set; None where they are not known."""
    return source.arrays.targets if source.is_plain and backend.dry_run() is None else None


def _check_function(
    called: str, function: Callable, forms: Forms, targets: Array | np.ndarray | None, where: str
) -> None:
    """Raises InputError unless a loss or metric gives one number for each example."""
    try:
        if targets is not None and len(forms.outputs.shape) == 2:
            if losses.check_all(function, forms.outputs.shape[1], targets):
                return
    except InputError as error:
        raise InputError(f"{where}.{error}") from None
    both = f"outputs of shape {forms.outputs.shape} and targets of shape {forms.targets.shape}"
    try:
        found = jax.eval_shape(function, forms.outputs, forms.targets)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        line = str(error).partition("\n")[0]
        raise InputError(f"{called} fails for {both} ({line}); {_CONTRACT}") from error
    shape = getattr(found, "shape", type(found).__name__)
    if shape != forms.outputs.shape[:1]:
        raise InputError(f"{called} returns {shape} for {both}; {_CONTRACT}")
    if targets is not None:
        _check_examples(called, function, forms.outputs, np.asarray(targets))


def _check_examples(called: str, function: Callable, outputs: Any, targets: np.ndarray) -> None:
    """Raises InputError where an example's number depends on the other examples.

    Three examples are computed together and one by one: a mean over comparisons of each output
    with each target has the right shape, too.
    """
    rows = targets.reshape(len(targets), -1)
    few = targets[np.append(0, np.flatnonzero((rows != rows[:1]).any(axis=1))[:2])]
    drawn = np.random.default_rng(0).random((len(few), *outputs.shape[1:]))
    drawn, few = jnp.asarray(drawn, outputs.dtype), jnp.asarray(few)
    together = np.asarray(function(drawn, few), np.float64)
    alone = [function(drawn[i : i + 1], few[i : i + 1]) for i in range(len(few))]
    if not np.allclose(together, np.ravel(alone), rtol=2e-2, atol=1e-3, equal_nan=True):
        raise InputError(
            f"{called} of an example depends on the other examples, for outputs of shape "
            f"{drawn.shape} and targets of shape {few.shape}; {_CONTRACT}; y[:, None] makes a "
            "column of targets y"
        )
