"""The training of a point: network, text, objective, optimiser, schedule.

The order of the text and the hidden tokens are functions of (seed, step) alone, so that every
network of a seed, however it was grown, sees the same.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float

from lsa_jax import backend, costs
from lsa_jax.errors import InputError
from lsa_jax.experiments.growing import text as texts
from lsa_jax.experiments.growing.downstream import Task, read_tasks
from lsa_jax.experiments.growing.objectives import TokenBatch, make_objective, num_sentinels
from lsa_jax.experiments.growing.settings import total_steps
from lsa_jax.experiments.growing.text import Text
from lsa_jax.experiments.growing.transformer import TRANSFORMERS, Params, Sizes, Transformer
from lsa_jax.parallel import Layout
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.steps import NetworkState, Problem, layouts_of

OBJECTIVE = {"encoder": "masked", "decoder": "ul2"}
VOCABULARY = {"encoder": "wordpiece", "decoder": "bytes"}

# Share of a device's memory for networks and gradients; the rest is for a step's other arrays.
_SHARE_OF_MEMORY = 0.8

# The hidden tokens of validation text are the same for all seeds.
_VALIDATION_SEED = 2**31 - 1

# Streams of a seed's key: the start, layers that a stage adds, hidden tokens of a batch.
_INIT, _LAYERS, _HIDDEN = range(3)


class GrowingTask(NamedTuple):
    """One seed's training, before any of it is done."""

    config: Config
    model: Transformer  # the network, of any depth
    problem: Problem  # loss, optimiser and batches

    def layouts(self, count: int) -> list[Layout]:
        """Returns the layouts of so many grown networks, part by part."""
        batch = self.config.batch_size if self.config.layout == "batch" else None
        return layouts_of(count, self.config.max_replicas, batch)


class Material(NamedTuple):
    """The data of one kind of network."""

    text: Text  # in its vocabulary
    downstream: tuple[Task, ...] = ()  # tasks of the grown networks; none in a dry run


def load(points: list[Point], data_dir: Path | None) -> dict[str, Material]:
    """Returns the material of each kind of network, read once."""
    return {
        kind: _material(points[0].config, kind, data_dir)
        for kind in dict.fromkeys(point.config.model.kind for point in points)
    }


def _material(config: Config, kind: str, data_dir: Path | None) -> Material:
    asked, sentinels = config.downstream, num_sentinels(OBJECTIVE[kind], config.data.length)
    text = texts.load(config.data, data_dir, VOCABULARY[kind], sentinels)
    if not asked.tasks or backend.dry_run() is not None:
        return Material(text)
    windows, sizes = text.validation.astype(np.int32), (asked.examples, asked.answer_tokens)
    return Material(text, read_tasks(asked.tasks, data_dir, text.tokenizer, windows, *sizes))


def make_schedule(config: Config) -> optax.Schedule:
    """Returns the learning rate of each step: a linear rise, then constant or a cosine's half.

    A cosine starts `peak_factor` times higher and ends at `end_factor` of that with the last step
    of the last network.

    Source: Karp (thesis, 2024), appendix C.1.
    """
    settings, steps = config.optimizer, total_steps(config)
    if settings.schedule == "constant":
        # Optax's rise in no steps stays at its start.
        start = 0.0 if settings.warmup_steps else settings.learning_rate
        return optax.warmup_constant_schedule(start, settings.learning_rate, settings.warmup_steps)
    peak = settings.learning_rate * settings.peak_factor
    return optax.warmup_cosine_decay_schedule(
        0.0, peak, settings.warmup_steps, steps, peak * settings.end_factor
    )


def make_optimizer(config: Config) -> optax.GradientTransformation:
    """Returns AdamW (Devlin et al., 2018: clipped, decoupled decay) or Adafactor (as in T5).

    Adafactor scales a step by a parameter's size, that of all layers together, and its factored
    moments keep the axis of layers as long as the layers are fewer than 128.
    """
    settings, schedule = config.optimizer, make_schedule(config)
    if settings.name == "adafactor":
        return optax.adafactor(schedule)
    # All but the scales and biases decay.
    is_decayed = functools.partial(
        jax.tree_util.tree_map_with_path,
        lambda path, _: not path[-1].key.endswith(("scale", "bias")),
    )
    adamw = optax.adamw(schedule, weight_decay=settings.weight_decay, mask=is_decayed)
    if settings.clip is None:
        return adamw
    return optax.chain(optax.clip_by_global_norm(settings.clip), adamw)


def make_loss(model: Transformer, remat: bool) -> Callable:
    """Returns `(params, batch) -> (sum of the asked tokens' cross-entropies, how many)`.

    `remat` computes logits window by window, and again for the gradient: the logits of a whole
    batch over a large vocabulary would fill the memory.
    """

    def loss(params: Params, batch: TokenBatch) -> tuple[Float[Array, ""], Float[Array, ""]]:
        vectors = model.read(params, batch.tokens, batch.prefix, batch.positions)

        def total(asked: tuple[Array, Array, Array]) -> Float[Array, ""]:
            vectors, targets, weights = asked
            logits = model.answer(params, vectors)
            values = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
            return jnp.sum(values * weights)

        asked = (vectors, batch.targets, batch.weights)
        if remat:
            windows = jax.tree.map(lambda a: a[:, None], asked)
            return jnp.sum(lax.map(jax.checkpoint(total), windows)), jnp.sum(batch.weights)
        return total(asked), jnp.sum(batch.weights)

    return loss


def _stream(seed: Any, stream: int) -> Array:
    return jax.random.fold_in(jax.random.key(seed), stream)


def _validation(config: Config, text: Text, objective: Any) -> TokenBatch:
    """Returns evenly spaced validation windows as batches [parts, batch, ...].

    Raises:
        InputError: fewer are held out.
    """
    count, size = config.data.validation_windows, config.batch_size
    if count > len(text.validation):
        raise InputError(
            f"config.data.validation_windows is {count}; accepted: at most the "
            f"{len(text.validation)} that are held out of this text"
        )
    rows = np.linspace(0, len(text.validation) - 1, count).round().astype(int)
    windows = jnp.asarray(text.validation[rows].astype(np.int32))
    batch = objective(_stream(_VALIDATION_SEED, _HIDDEN), windows)
    return jax.tree.map(lambda a: a.reshape(count // size, size, *a.shape[1:]), batch)


def _model(config: Config, vocabulary_size: int, remat: bool) -> Transformer:
    given = {name: v for name, v in config.model.items() if name not in ("kind", "remat")}
    sizes = Sizes(vocabulary_size, config.data.length, **given, remat=remat)
    return TRANSFORMERS[config.model.kind](sizes)


def training_bytes(config: Config, vocabulary_size: int, objective: Callable, remat: bool) -> int:
    """Returns the bytes of training on a device: networks, and values kept for gradients."""
    count = backend.device_count()
    split = config.layout == "batch"
    windows = config.batch_size // count if split else config.batch_size
    space = [config.sweep[axis] for axis in ("index", "block_size", "source")]
    networks = 1 if split else config.max_replicas or math.prod(map(len, space))
    model = _model(config, vocabulary_size, remat)
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(lambda key: model.init(key, config.layers + config.added), key)
    optimizer = jax.eval_shape(make_optimizer(config).init, params)
    text = jax.ShapeDtypeStruct((windows, config.data.length), jnp.int32)
    batch = jax.eval_shape(objective, key, text)
    kept = costs.bytes_for_gradient(lambda p, b: make_loss(model, remat)(p, b)[0], params, batch)
    held = 2 * costs.size_in_bytes(params) + costs.size_in_bytes(optimizer)  # and gradients
    return math.ceil(networks / count) * (held + kept)


def choose_remat(config: Config, vocabulary_size: int, objective: Callable) -> bool:
    """Returns whether to compute layers twice: as configured, or where memory is too small else.

    Raises:
        InputError: an accelerator's memory is too small in either case.
    """
    memory = backend.memory()
    if memory is None:
        return bool(config.model.remat)
    choices = (False, True) if config.model.remat is None else (config.model.remat,)
    needed = {remat: training_bytes(config, vocabulary_size, objective, remat) for remat in choices}
    for remat, size in needed.items():
        if size <= _SHARE_OF_MEMORY * memory:
            return remat
    raise InputError(
        f"config.batch_size is {config.batch_size}: training takes "
        + ", ".join(f"{size:.3g} bytes with model.remat={remat}" for remat, size in needed.items())
        + f" on each of {backend.device_count()} devices of {memory:.3g}; accepted: a smaller "
        'batch, model.remat=None, config.layout="batch", or more devices'
    )


@functools.lru_cache(maxsize=8)
def _shared(config: ml_collections.FrozenConfigDict, vocabulary_size: int) -> tuple[Any, ...]:
    """Returns network, loss, optimiser, objective and draw of hidden tokens of all seeds."""
    objective = make_objective(OBJECTIVE[config.model.kind], config.data.length, vocabulary_size)
    remat = choose_remat(config, vocabulary_size, objective)
    model = _model(config, vocabulary_size, remat)

    @jax.jit
    def hide(windows: Array, steps: Array, seed: Array) -> TokenBatch:
        keys = jax.vmap(jax.random.fold_in, (None, 0))(_stream(seed, _HIDDEN), steps)
        return jax.vmap(objective)(keys, windows)

    return model, make_loss(model, remat), make_optimizer(config), objective, hide


def make_task(config: Config, text: Text) -> GrowingTask:
    """Returns a point's training."""
    without_seed = ml_collections.FrozenConfigDict(config.to_dict() | {"seed": 0})
    model, loss, optimizer, objective, hide = _shared(without_seed, text.vocabulary_size)

    def batches(first: int, count: int) -> TokenBatch:
        steps, shares = np.arange(first, first + count), tuple(config.data.shares)
        rows = [
            texts.batch_rows(text.sizes, shares, config.seed, config.batch_size, step)
            for step in steps.tolist()
        ]
        return hide(text.train[np.stack(rows)].astype(np.int32), steps, config.seed)

    validation = _validation(config, text, objective)
    problem = Problem(loss, optimizer, batches, validation, text.checksum)
    return GrowingTask(config, model, problem)


def first_state(task: GrowingTask, num_layers: int) -> NetworkState:
    """Returns the shallow network before training."""

    def draw() -> NetworkState:
        params = task.model.init(_stream(task.config.seed, _INIT), num_layers)
        return NetworkState(params, task.problem.optimizer.init(params))

    return backend.shapes_only(draw)


def fresh_params(task: GrowingTask, num_layers: int) -> Params:
    """Returns a deeper network as it is initialised: the new layers of random operators."""
    key = jax.random.fold_in(_stream(task.config.seed, _LAYERS), num_layers)
    return backend.shapes_only(lambda: task.model.init(key, num_layers))
