"""Landscape-aware growing: try every way to grow for a few steps, keep the best.

Source: Karp et al. (2024), Landscape-Aware Growing; Karp (thesis, 2024), section 5.4.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from lsa_jax import backend
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.training.growth import Operator, grow, layer_map, num_layers_of
from lsa_jax.training.steps import EVERYWHERE, NetworkState, Part, Placement, Problem, train_parts

PyTree = Any

_grow = jax.jit(grow)  # one program for all operators, where each leaf would take several


class Selection(NamedTuple):
    """What LAG@k chose.

    Attributes:
        operator: the one with the lowest loss.
        state: its network after the k steps, to be trained on from there.
        scores: by operator, the loss that decided: the mean of the last evaluations.
        losses: the validation loss after each of the last steps, which are averaged.
    """

    operator: Operator
    state: NetworkState
    scores: dict[Operator, float]
    losses: Float[np.ndarray, "steps operators"]


def grow_all(
    state: NetworkState, fresh: PyTree, optimizer: Any, operators: Sequence[Operator]
) -> NetworkState:
    """Returns the grown networks [operators, ...], their optimisers' states carried along.

    Args:
        state: of the shallow network.
        fresh: parameters of the deeper one as it is initialised; random layers get theirs, the same
            for every operator.
        optimizer: whose state it is.
        operators: how to grow.
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
    fresh: PyTree,
    operators: Sequence[Operator],
    *,
    steps: int,
    first_step: int = 0,
    window: int = 1,
    placement: Placement = EVERYWHERE,
    checkpoint_every: int | None = None,
    directory: Path | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Selection:
    """LAG@k: grows by every operator, trains each for k steps and keeps the lowest loss.

    Args:
        problem: the loss, the optimiser, the batches and the validation batches.
        state: parameters and optimiser's state of the shallow network.
        fresh: parameters of the deeper network as it is initialised.
        operators: the search space, such as `growth.search_space` gives.
        steps: k; 0 keeps what raises the loss least.
        first_step: number of the first step in the order of batches.
        window: after how many of the last steps the loss is measured; their mean decides.
        placement: how many operators are trained side by side, and on what.
        checkpoint_every: steps between checkpoints; None saves at the end alone.
        directory: for checkpoints; None keeps nothing.
        progress: called with the fraction done.

    Returns:
        The choice, trained for the k steps.

    Raises:
        InputError: an operator does not fit, or there is none.
        NumericalError: no operator has a finite loss.
    """
    if not operators:
        raise InputError("operators is empty; accepted: one or more")
    end = first_step + steps
    parts = train_parts(
        problem,
        lambda start, stop: grow_all(state, fresh, problem.optimizer, operators[start:stop]),
        len(operators),
        placement,
        start=first_step,
        stop=end,
        measured=np.arange(max(first_step, end - window + 1), end + 1),
        segment=checkpoint_every or max(steps, 1),
        directory=directory,
        progress=progress,
    )
    return _lowest(parts, operators, steps, window)


def _lowest(
    parts: Iterator[Part], operators: Sequence[Operator], steps: int, window: int
) -> Selection:
    """Chooses among all parts, of which memory holds one at a time."""
    lowest, chosen, losses = np.inf, None, []
    for part in parts:
        scores = part.trained.losses[-window:].mean(axis=0)
        scores = np.where(np.isfinite(scores), scores, np.inf)
        best = int(np.argmin(scores))
        if scores[best] < lowest:
            lowest = scores[best]
            winner = jax.tree.map(lambda a, best=best: a[best], part.trained.states)
            chosen = operators[part.start + best], winner
        losses.append(part.trained.losses)
    if chosen is None:
        raise NumericalError(
            f"no operator has a finite loss after {steps} steps; lower the learning rate"
        )
    table = np.concatenate(losses, axis=1)
    means = table[-window:].mean(axis=0).tolist()
    return Selection(*chosen, dict(zip(operators, means, strict=True)), table)
