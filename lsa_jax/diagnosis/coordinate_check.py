"""Whether learning rates transfer over the widths of any library's network.

found = lsa_jax.coordinate_check(lambda width: Net(width), (64, 128, 256, 512), X, y)
print(found)
found.table; found.figure(); found.rows
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from jaxtyping import Array, Float, Key

from lsa_jax import arrays, training
from lsa_jax.arrays import real_array
from lsa_jax.checks import Kind, integer, number, require
from lsa_jax.data.dataset import Dataset
from lsa_jax.diagnosis import tasks
from lsa_jax.diagnosis.runs import loss_of
from lsa_jax.errors import InputError, one_line
from lsa_jax.models.any_library import as_model
from lsa_jax.models.model import ExampleShape, Model, state_names
from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, subplots
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, ends
from lsa_jax.reporting.statistics import slope
from lsa_jax.training import coordinates
from lsa_jax.training.optimizers import check_optimizer

# Slopes of log change against log width up to this size count as flat. Ours.
FLAT = 0.15
# Spreads of loss curves over widths, over their fall, up to this one count as a collapse. Ours.
SPREAD = 0.25

_OPTIMIZERS = ("sgd", "adam")
_CURVES = "spread of loss curves"
_CHANGE = "change/"


class CoordinateCheck(NamedTuple):
    """Changes of activations against the width, and loss curves over widths.

    Attributes:
        rows: one a width and seed, with a column "change/NAME" for each kind of activations: the
            root mean square change on the first batch.
        curves: loss before each step over the loss before the first, [widths, seeds, steps].
        widths: as given.
    """

    rows: pd.DataFrame
    curves: Float[np.ndarray, "widths seeds steps"]
    widths: tuple[int, ...]

    @property
    def table(self) -> pd.DataFrame:
        """Slopes of log change against log width and the curves' spread, with 95 % intervals."""
        runs = Runs.of([], self.rows)._replace(planned=self.rows[["width", "seed"]])
        rows = []
        for column in columns(self.rows):
            sample = slope(column, "width")(runs)
            rows.append(_row(f"slope of {name_of(column)}", sample, _of_slope))
        spreads = Sample(pd.Series(_spreads(self.curves)))
        return pd.DataFrame([*rows, _row(_CURVES, spreads, _of_spread)])

    @property
    def verdict(self) -> str:
        """Whether the learning rate transfers, in a sentence."""
        by_word = self.table.groupby("verdict")["quantity"].agg(", ".join)
        for word in ("grows", "falls"):
            if word in by_word:
                return f"the rate does not transfer: the {by_word[word]} {word} with the width"
        if "no collapse" in by_word:
            return (
                "loss curves of different widths differ at one rate: it need not transfer, although"
                " no change of activations grows or falls with the width"
            )
        if "undecided" in by_word:
            return f"undecided: {by_word['undecided']}; more seeds or widths decide"
        return "the rate transfers: changes do not depend on the width, and loss curves collapse"

    def __str__(self) -> str:
        return f"{self.table.to_string(index=False, float_format='{:.3f}'.format)}\n{self.verdict}"

    def figure(self) -> Any:
        """Returns a figure: changes against the width, and loss curves, the mean over seeds."""
        figure, (axes,) = subplots(1, 2, 4.5, 3.5)
        draw_changes(axes[0], self.rows, "width")
        axes[0].set(xlabel="width", ylabel="change of activations (r.m.s.)")
        axes[0].legend(frameon=False, fontsize=7)
        for width, curves, color in zip(self.widths, self.curves, PALETTE * 9, strict=False):
            axes[1].plot(curves.mean(0), color=color, label=f"width {width}")
        axes[1].set(xlabel="step", ylabel="loss over the first")
        axes[1].legend(frameon=False, fontsize=7)
        return figure


def _row(quantity: str, sample: Sample, word: Callable[[float, float], str]) -> dict[str, Any]:
    mean, (low, high) = float(sample.values.mean()), ends(sample)
    row = {"quantity": quantity, "value": mean, "low": low, "high": high}
    return row | {"verdict": word(low, high)}


def _of_slope(low: float, high: float) -> str:
    if -FLAT <= low and high <= FLAT:
        return "flat"
    return "grows" if low > FLAT else "falls" if high < -FLAT else "undecided"


def _of_spread(low: float, high: float) -> str:
    return "collapse" if high <= SPREAD else "no collapse" if low > SPREAD else "undecided"


def _spreads(curves: Float[np.ndarray, "widths seeds steps"]) -> Float[np.ndarray, " seeds"]:
    """Returns each seed's largest difference between widths, over the mean fall of the loss."""
    apart = (curves.max(0) - curves.min(0)).max(axis=1)
    fall = (1 - curves.min(axis=2)).mean(0)
    return np.where(fall > 0, apart / np.where(fall > 0, fall, 1), np.inf)


def coordinate_check(
    make: Callable[[int], Any],
    widths: Sequence[int],
    X: Any,  # noqa: N803
    y: Any = None,
    *,
    optimizer: str | Callable[[int], optax.GradientTransformation] = "adam",
    rate: float = 1e-3,
    steps: int = 4,
    curve_steps: int = 64,
    batch_size: int = 64,
    seeds: int = 5,
    key: Key[Array, ""] | None = None,
) -> CoordinateCheck:
    """Answers whether one learning rate serves all widths of a network.

    Two tests. Activations of every layer change as much at any width in a few steps: the slope of
    the log of their root mean square change against the log of the width is 0. And loss curves at
    one rate, each over its first value, are the same at any width: the largest difference between
    widths along the curve, over the mean fall, is small. The second can fail where the first is
    passed. Cut-offs (0.15 and 0.25) are ours.

        found = lsa_jax.coordinate_check(lambda width: Net(width), (64, 128, 256, 512), X, y)

    Args:
        make: `width -> network` of any library that `diagnose` accepts, or a `models.Model`, whose
            learning rates in muP are its own (`rate_factors`). Activations are named by
            `training.coordinates.activations_of`.
        widths: two or more; three for a slope that is more than noise.
        X: inputs [n, ...].
        y: targets as `diagnose` takes them; None draws standard normal numbers for each output.
        optimizer: "sgd" or "adam", at the rate; or `width -> optax transformation`, for a network
            whose rates are scaled with the width by hand.
        rate: learning rate at any width.
        steps: after which activations are compared with the start.
        curve_steps: length of the loss curves.
        batch_size: examples a step, in an order of each seed.
        seeds: initialisations and orders; intervals are over them.
        key: draws both; None is `jax.random.key(0)`.

    Raises:
        InputError: an argument is not accepted, or a loss or change is not finite.

    Source: Yang et al., Tensor Programs V, 2022 (arXiv 2203.03466), appendix D.1, for the first
    test; Qiu et al., 2025 (arXiv 2507.02119), for the collapse of loss curves.
    """
    _check(widths, optimizer, rate, steps, curve_steps, batch_size, seeds)
    key = jax.random.key(0) if key is None else arrays.random_key("key", key)
    built = {width: as_model(_made("make", make, width)) for width in widths}
    data, loss = _task(key, X, y, next(iter(built.values())))
    rows, curves = [], []
    for width, model in built.items():
        shape, rule = ExampleShape.of(data.inputs), optimizer
        params = _params(width, model, data.inputs)
        if isinstance(rule, str):
            factors = model.rate_factors and model.rate_factors(tuple(shape), rule)
            made = training.make_optimizer(rule, rate, rate_factors=factors)
        else:
            made = _made("optimizer", rule, width)
        check_optimizer(made, params)
        run = _run(model, made, loss, data, min(batch_size, len(data.targets)), steps, curve_steps)
        changes, losses = jax.device_get(jax.jit(jax.vmap(run))(jax.random.split(key, seeds)))
        _check_finite(width, changes, losses)
        rows += [
            {"width": width, "seed": seed}
            | {f"change/{k}": float(v[seed]) for k, v in changes.items()}
            for seed in range(seeds)
        ]
        curves.append(losses / losses[:, :1])
    table = pd.DataFrame(rows)
    seen = [name for name in columns(table) if (table[name] > 0).all()]  # inputs do not change
    return CoordinateCheck(table[["width", "seed", *seen]], np.stack(curves), tuple(widths))


def _made(name: str, function: Callable[[int], Any], width: int) -> Any:
    """Returns what a user's function makes of a width."""
    try:
        return function(width)
    except InputError:
        raise
    except Exception as error:  # of any kind
        reason = one_line(error)
        raise InputError(
            f"{name}({width}) raises {type(error).__name__}: {reason:.200}; accepted: a function "
            "of the width"
        ) from error


def _params(width: int, model: Model, inputs: np.ndarray) -> Any:
    """Returns the forms of a network's parameters.

    Raises:
        InputError: it has state, which is of no use in evaluation until it has been trained.
    """
    shape = ExampleShape.of(inputs)
    params = jax.eval_shape(lambda key: model.init(key, shape), jax.random.key(0))
    if names := state_names(model, params, inputs[:1]):
        raise InputError(
            f"make({width}) has the state {', '.join(names)}; accepted: networks without running "
            "statistics, with LayerNorm or models.BatchNorm in place of BatchNorm"
        )
    return params


def _check(
    widths: Sequence[int],
    optimizer: Any,
    rate: float,
    steps: int,
    curve_steps: int,
    batch_size: int,
    seeds: int,
) -> None:
    two = Kind(
        lambda v: np.ndim(v) == 1 and len(set(v)) == len(v) > 1 and all(map(integer(1).accepts, v)),
        "two or more different whole numbers above 0, such as (64, 128, 256)",
        tuple,
    )
    require("widths", widths, two)
    named = Kind(
        # optax.sgd(width) would take the width as its rate.
        lambda v: v in _OPTIMIZERS or callable(v) and not str(v.__module__).startswith("optax."),
        "'sgd', 'adam', or a function (width) -> optax transformation",
        object,
    )
    require("optimizer", optimizer, named)
    require("rate", rate, number(0, above=True))
    for name, value in {"steps": steps, "batch_size": batch_size}.items():
        require(name, value, integer(1))
    require("curve_steps", curve_steps, integer(steps))
    require("seeds", seeds, integer(2))


def _task(key: Key[Array, ""], X: Any, y: Any, model: Model) -> tuple[Dataset, Callable]:  # noqa: N803
    """Returns examples and the loss of their targets."""
    if y is not None:
        task = tasks.fitted(model, tasks.make_task(X, y))
        return task.train, loss_of(task)
    inputs = np.asarray(real_array("X", X, "n ...", finite=True))
    params = jax.eval_shape(lambda k: model.init(k, ExampleShape.of(inputs)), key)
    outputs = jax.eval_shape(model.apply, params, inputs[:1]).shape[-1]
    targets = jax.random.normal(jax.random.fold_in(key, 1), (len(inputs), outputs))
    return Dataset(inputs, np.asarray(targets)), training.squared_error


def _run(
    model: Model,
    optimizer: optax.GradientTransformation,
    loss: Callable,
    data: Dataset,
    batch_size: int,
    steps: int,
    curve_steps: int,
) -> Callable[[Key[Array, ""]], tuple[dict[str, Array], Float[Array, " steps"]]]:
    """Returns `key -> (changes of activations, loss before each step)`, which jax can trace."""
    inputs, targets = (jnp.asarray(part) for part in data)
    activations, shape = coordinates.activations_of(model), ExampleShape.of(data.inputs)

    def run(key: Key[Array, ""]) -> tuple[dict[str, Array], Float[Array, " steps"]]:
        key_start, key_order = jax.random.split(key)
        order = jax.random.permutation(key_order, len(targets))

        def batch(number: Array) -> tuple[Array, Array]:
            index = order[(number * batch_size + jnp.arange(batch_size)) % len(targets)]
            return inputs[index], targets[index]

        def loss_at(params: Any, number: Array) -> Array:
            x, y = batch(number)
            return jnp.mean(loss(model.apply(params, x), y))

        start = model.init(key_start, shape)
        given = loss_at, optimizer
        now, state, first = coordinates.take_steps(
            start, optimizer.init(start), *given, jnp.arange(steps)
        )
        *_, rest = coordinates.take_steps(now, state, *given, jnp.arange(steps, curve_steps))
        seen = batch(jnp.int32(0))[0]
        changes = training.measures.activation_change(activations, start, now, seen)
        return changes, jnp.concatenate([first, rest])

    return run


def _check_finite(width: int, changes: dict[str, np.ndarray], losses: np.ndarray) -> None:
    if not all(np.isfinite(found).all() for found in (*changes.values(), losses)):
        raise InputError(
            f"rate: the loss or a change of activations at width {width} is not finite; accepted: "
            "a smaller rate"
        )


def columns(table: pd.DataFrame) -> list[str]:
    """Returns the columns of changes, "change/NAME", the outputs' last."""
    found = [name for name in table if name.startswith(_CHANGE)]
    return sorted(found, key=lambda name: name == f"{_CHANGE}outputs")


def name_of(column: str) -> str:
    """Returns the activations' name of a column."""
    return column.removeprefix(_CHANGE)


def draw_changes(axis: Any, table: pd.DataFrame, against: str) -> None:
    """Draws the changes of all activations against the width's column, both axes logarithmic."""
    for column, color in zip(columns(table), PALETTE, strict=False):
        style = {"color": color, "label": name_of(column), "marker": "o", "markersize": 3}
        draw_mean(axis, table[column], table[against], **style)
    mark_logarithmic(axis, table[against])
    axis.set(yscale="log")
