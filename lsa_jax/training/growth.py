"""Growing a network in depth: the map from old layers to new ones, and LAG@k, which chooses it.

Works on any network whose parameters are a dictionary with an entry "layers", in which every leaf
has a leading axis of layers in order; the other parameters stay. The optimiser's state has the same
entry wherever it holds a value for each parameter, and grows in the same way.

Source of LAG@k: Karp et al. (2024), Landscape-Aware Growing; Karp (thesis, 2024), section 5.4.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsa_jax import backend
from lsa_jax.arrays import real_array, real_numbers
from lsa_jax.checks import integer, one_of, require
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.parallel import Layout
from lsa_jax.training.steps import NetworkState, Problem, Trained, layouts_of, train_parts

Tree = TypeVar("Tree")

NEW = -1  # in a layer map: a newly drawn layer
LAYERS = "layers"
SOURCES = ("copy", "random")


class Operator(NamedTuple):
    """A way to grow by k layers: k consecutive layers become 2k.

    Attributes:
        index: the first of the k layers, from 0.
        block_size: b; the k layers are cut in k / b blocks, and b new layers follow each block.
        source: of new layers: a "copy" of their block, or "random" values.

    Source: Karp (thesis, 2024), section 5.2.1, where the index counts from 1 in the text and from 0
    in the experiments.
    """

    index: int
    block_size: int
    source: Literal["copy", "random"]

    @property
    def name(self) -> str:
        """The name in tables and figures."""
        return f"i={self.index} b={self.block_size} {self.source}"


def layer_map(num_layers: int, added: int, operator: Operator) -> tuple[int, ...]:
    """Returns the old layer that each of the num_layers + added layers comes from, or NEW.

    Raises:
        InputError: the operator does not fit this growth.
    """
    index, size, source = operator
    require("index", index, integer(0))
    require("block_size", size, integer(1))
    if index > num_layers - added:
        raise InputError(
            f"index is {index}; accepted where {num_layers} layers grow by {added}: "
            f"0 to {num_layers - added}"
        )
    if added % size:
        raise InputError(f"block_size is {size}; accepted: divisors of {added}, the layers added")
    if source not in SOURCES:
        raise InputError(f"source is {source!r}; accepted: {', '.join(SOURCES)}")
    out = list(range(index))
    for start in range(index, index + added, size):
        block = list(range(start, start + size))
        out += block + (block if source == "copy" else [NEW] * size)
    return (*out, *range(index + added, num_layers))


def search_space(
    num_layers: int,
    added: int,
    *,
    indices: tuple[int, ...] | None = None,
    block_sizes: tuple[int, ...] | None = None,
    sources: tuple[str, ...] = SOURCES,
) -> list[Operator]:
    """Returns every operator with these settings; the default is all operators.

    Raises:
        InputError: one of them does not fit.
    """
    require("num_layers", num_layers, integer(1))
    require("added", added, one_of(*range(1, num_layers + 1)))
    indices = tuple(range(num_layers - added + 1)) if indices is None else indices
    if block_sizes is None:
        block_sizes = tuple(b for b in range(1, added + 1) if added % b == 0)
    operators = [Operator(i, b, s) for i in indices for b in block_sizes for s in sources]
    for operator in operators:
        layer_map(num_layers, added, operator)
    return operators


def stack_last(num_layers: int, added: int, source: str = "copy") -> Operator:
    """Returns the operator that adds a copy of the last block, or a random block, on top."""
    return Operator(num_layers - added, added, source)


def _is_layers(path: tuple[Any, ...]) -> bool:
    return any(getattr(entry, "key", None) == LAYERS for entry in path)


def grow(tree: Tree, fresh: Tree, sources: Int[Array | np.ndarray, " grown"]) -> Tree:
    """Returns parameters, or an optimiser's state, of the deeper network.

    Args:
        tree: of the shallow network.
        fresh: the same of a deep network at initialisation, for new layers. (An optimiser's state
            is zero there; copies keep the moments of their layer.)
        sources: the layer map; may be traced, so that one program serves all operators.

    Returns:
        The layers by the map; everything else, such as an optimiser's step counter, stays.

    Raises:
        InputError: a leaf is no array of numbers, the two trees do not fit, or `sources` is not of
            layers of the shallow network.
    """
    sources = real_array("sources", sources, "grown")
    if not jnp.issubdtype(sources.dtype, jnp.integer):
        raise InputError(f"sources holds {sources.dtype}; accepted: numbers of layers, or {NEW}")
    known = None if isinstance(sources, jax.core.Tracer) else np.asarray(sources)
    sources = jnp.asarray(sources)

    def leaf(path: tuple[Any, ...], old: Array, new: Array) -> Array:
        named = jax.tree_util.keystr(path)
        old, new = real_numbers(f"tree{named}", old), real_numbers(f"fresh{named}", new)
        # Adafactor has fillings of shape [1] where a parameter has no factored moments.
        if not _is_layers(path) or jnp.shape(old) == jnp.shape(new):
            return jnp.asarray(old)
        wanted = (len(sources), *jnp.shape(old)[1:])
        if jnp.shape(new) != wanted:
            raise InputError(
                f"{named} has shape {jnp.shape(new)} in the deeper network; accepted: {wanted}"
            )
        if known is not None and (known.min() < NEW or known.max() >= len(old)):
            raise InputError(
                f"sources is {known.tolist()}; accepted: layers 0 to {len(old) - 1}, or {NEW}"
            )
        is_new = (sources == NEW).reshape(-1, *(1 for _ in wanted[1:]))
        return jnp.where(is_new, new, jnp.asarray(old)[jnp.maximum(sources, 0)])

    return jax.tree_util.tree_map_with_path(leaf, tree, fresh)


def num_layers_of(params: dict[str, Any]) -> int:
    """Returns the number of layers of parameters.

    Raises:
        InputError: they are no dictionary with layers.
    """
    if not isinstance(params, dict) or not jax.tree.leaves(params.get(LAYERS)):
        named = ", ".join(map(str, params)) if isinstance(params, dict) else type(params).__name__
        raise InputError(
            f"params has {named}; accepted: a dictionary with an entry {LAYERS!r}, whose arrays "
            "have a leading axis of layers"
        )
    return int(np.shape(jax.tree.leaves(params[LAYERS])[0])[0])


_grow = jax.jit(grow)  # one program for all operators, where each leaf would take several


class Selection(NamedTuple):
    """The choice of LAG@k.

    Attributes:
        operator: the one with the lowest score.
        state: its network after the k steps.
        scores: by operator, the mean of the losses.
        losses: the validation loss after each of the last steps.
    """

    operator: Operator
    state: NetworkState
    scores: dict[Operator, float]
    losses: Float[np.ndarray, "steps operators"]


def grow_all(
    state: NetworkState, fresh: Any, optimizer: Any, operators: Sequence[Operator]
) -> NetworkState:
    """Returns the grown networks [operators, ...], their optimisers' states carried along.

    Random layers are those of `fresh`, parameters of the deeper network at initialisation, the same
    for every operator.
    """
    old = num_layers_of(state.params)
    added = num_layers_of(fresh) - old
    if added < 1:
        raise InputError(f"fresh has {old + added} layers; accepted: more than {old}, to be grown")
    maps = np.array([layer_map(old, added, operator) for operator in operators])
    template = backend.shapes_only(lambda: NetworkState(fresh, optimizer.init(fresh)))
    if backend.dry_run() is not None:
        one = jax.eval_shape(_grow, state, template, maps[0])
        return jax.tree.map(lambda a: backend.hollow(a, (len(maps),)), one)
    grown = [jax.tree.map(np.asarray, _grow(state, template, sources)) for sources in maps]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *grown)


def grow_and_select(
    problem: Problem,
    state: NetworkState,
    fresh: Any,
    operators: Sequence[Operator],
    *,
    steps: int,
    first_step: int = 0,
    window: int = 1,
    layouts: Sequence[Layout] | None = None,
    checkpoint_every: int | None = None,
    directory: Path | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Selection:
    """LAG@k: grows by every operator, trains each for k steps and keeps the lowest loss.

    Args:
        problem: the loss, the optimiser, the batches and the validation batches.
        state: parameters and optimiser's state of the shallow network.
        fresh: parameters of the deeper network at initialisation.
        operators: the search space, such as `search_space` returns.
        steps: k; 0 chooses the operator that raises the loss least.
        first_step: number of the first step in the order of batches.
        window: number of last steps after which the loss is measured; their mean decides.
        layouts: of the operators, part by part, as `layouts_of` returns them; None trains all at
            once.
        checkpoint_every: steps between checkpoints; None saves only at the end.
        directory: for checkpoints; None saves nothing.
        progress: called with the fraction done.

    Returns:
        The choice, trained for the k steps.

    Raises:
        InputError: an operator does not fit, or there is none.
        NumericalError: no operator has a finite loss.
    """
    if not operators:
        raise InputError("operators is empty; accepted: one or more")
    require("steps", steps, integer(0))
    require("window", window, integer(1))
    end = first_step + steps
    parts = train_parts(
        problem,
        lambda start, stop: grow_all(state, fresh, problem.optimizer, operators[start:stop]),
        layouts or layouts_of(len(operators)),
        start=first_step,
        stop=end,
        measured=np.arange(max(first_step, end - window + 1), end + 1),
        segment=checkpoint_every or max(steps, 1),
        directory=directory,
        progress=progress,
    )
    return _lowest(parts, operators, steps, window)


def _lowest(
    parts: Iterator[tuple[int, Trained]], operators: Sequence[Operator], steps: int, window: int
) -> Selection:
    """Chooses among all parts; memory holds one part at a time."""
    lowest, chosen, losses = np.inf, None, []
    for start, trained in parts:
        scores = trained.losses[-window:].mean(axis=0)
        scores = np.where(np.isfinite(scores), scores, np.inf)
        best = int(np.argmin(scores))
        if scores[best] < lowest:
            lowest = scores[best]
            winner = jax.tree.map(lambda a, best=best: a[best], trained.states)
            chosen = operators[start + best], winner
        losses.append(trained.losses)
    if chosen is None:
        raise NumericalError(
            f"no operator has a finite loss after {steps} steps; lower the learning rate"
        )
    table = np.concatenate(losses, axis=1)
    means = table[-window:].mean(axis=0).tolist()
    return Selection(*chosen, dict(zip(operators, means, strict=True)), table)
