"""Settings: ways to grow a Transformer in depth, and which to choose.

Sources of the defaults: Karp (thesis, 2024), chapter 5 and appendix C, where they are not a matter
of size.
"""

import math

import ml_collections

from lsa_jax.checks import boolean, integer, number, one_of, optional, text, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.reporting.measure_names import OF_WEIGHTS
from lsa_jax.sweep.fields import Field, Settings, experiment_field, measure_fields, product

_KIND, _SCHEDULE = one_of("encoder", "decoder"), one_of("constant", "cosine")
_SEED, _INDEX, _BLOCK, _SOURCE = integer(0), integer(0), integer(1), one_of("copy", "random")
_STRATEGY = one_of("last", "adaptive")

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("Growing in depth", text(), "heading of the report"),
    "question": Field(
        "operators",
        one_of("operators", "stacking"),
        "all ways to grow once; or growing in stages, by the last block or by the best way",
    ),
    "seed": Field(0, _SEED, "draws the network, the order of the text and what is masked"),
    # The text.
    "data.sources": Field(("text",), tuple_of(text()), "files or folders, or hf:PATH[:NAME]"),
    "data.shares": Field((), tuple_of(number(0)), "of the sources; none takes all windows once"),
    "data.max_characters": Field(None, optional(integer(1)), "of each source; None reads all"),
    "data.vocabulary_size": Field(1024, integer(8), "WordPiece (encoder) or bytes (decoder)"),
    "data.length": Field(64, integer(8), "tokens of a window"),
    "data.validation_every": Field(10, integer(2), "one of so many runs of windows is held out"),
    "data.validation_windows": Field(64, integer(1), "windows on which the loss is measured"),
    # The network.
    "model.kind": Field("encoder", _KIND, "BERT's masked tokens, or UL2's mixture"),
    "model.width": Field(64, integer(2), "of a position's vector"),
    "model.heads": Field(4, integer(1), "attention heads"),
    "model.hidden": Field(256, integer(1), "width inside the feed-forward part"),
    "model.init_std": Field(0.02, number(0), "standard deviation of weights at initialisation"),
    "model.dtype": Field("float32", one_of("float32", "bfloat16"), "what layers compute in"),
    "model.remat": Field(
        None,
        optional(boolean()),
        "compute layers and logits twice to save memory; None means on accelerators that need it",
    ),
    # Training; steps count from the first of the shallow network.
    "optimizer.name": Field("adamw", one_of("adamw", "adafactor"), "which rule"),
    "optimizer.learning_rate": Field(1e-4, number(0, above=True), "after the warm-up"),
    "optimizer.schedule": Field("constant", _SCHEDULE, "after the warm-up"),
    "optimizer.peak_factor": Field(1.0, number(0, above=True), "cosine: its peak / learning_rate"),
    "optimizer.end_factor": Field(0.1, number(0, 1), "cosine: rate of the last step / peak"),
    "optimizer.warmup_steps": Field(0, integer(0), "steps of linear rise from 0"),
    "optimizer.weight_decay": Field(0.01, number(0), "decoupled decay (adamw)"),
    "optimizer.clip": Field(1.0, optional(number(0, above=True)), "largest gradient norm (adamw)"),
    "batch_size": Field(16, integer(1), "windows a step"),
    "layers": Field(6, integer(1), "of the shallow network"),
    "added": Field(2, integer(1), "k, layers that growing adds"),
    "base_steps": Field(1500, integer(1), "of the shallow network"),
    "grow_steps": Field(400, integer(1), "of each grown network"),
    # The operator of one point.
    "index": Field(0, _INDEX, "i, first of the k layers, from 0"),
    "block_size": Field(1, _BLOCK, "b, layers of a block"),
    "source": Field("copy", _SOURCE, "what new layers hold"),
    # When the loss is measured, and what is averaged.
    "dense_steps": Field(200, integer(0), "steps after growing that are watched closely"),
    "dense_every": Field(1, integer(1), "steps between measurements there"),
    "eval_every": Field(10, integer(1), "steps between measurements later, and before growing"),
    "smooth_steps": Field(11, integer(1), "centred window of the early losses; step 0 stays"),
    "final_share": Field(0.25, number(0, 1, above=True), "of the last steps: their mean is final"),
    "lag_steps": Field(200, integer(0), "k of LAG@k"),
    "lag_window": Field(1, integer(1), "steps up to k whose mean decides"),
    # What grown decoders can do.
    "downstream.tasks": Field(
        (), tuple_of(text()), "NAME of NAME.jsonl (NAME:word: first words), or last_word"
    ),
    "downstream.examples": Field(1000, integer(1), "items of a task at most"),
    "downstream.answer_tokens": Field(16, integer(1), "of a completion"),
    # Growing in stages.
    "strategy": Field("adaptive", _STRATEGY, "the best of the space by LAG, or the last block"),
    "stage_steps": Field((100, 100), tuple_of(integer(1)), "of each stage, the first one too"),
    "index_strides": Field((1,), tuple_of(integer(1)), "of each later stage's indices"),
    # How it lies on the machine.
    "layout": Field(
        "replicas", one_of("replicas", "batch"), "operators side by side, or one on all devices"
    ),
    "max_replicas": Field(None, optional(integer(1)), "operators side by side; None means all"),
    "checkpoint_every": Field(100, integer(1), "steps between checkpoints"),
    **measure_fields(OF_WEIGHTS, "kernels would take a derivative for each word of the vocabulary"),
    # The axes of the sweep.
    "sweep.kind": Field(("encoder",), tuple_of(_KIND), "networks"),
    "sweep.schedule": Field(("constant",), tuple_of(_SCHEDULE), "schedules"),
    "sweep.seed": Field((0,), tuple_of(_SEED), "seeds"),
    "sweep.index": Field((0, 2, 4), tuple_of(_INDEX), "operators' i"),
    "sweep.block_size": Field((1, 2), tuple_of(_BLOCK), "operators' b, in stages too"),
    "sweep.source": Field(("copy", "random"), tuple_of(_SOURCE), "operators' sources"),
    "sweep.strategy": Field(("last", "adaptive"), tuple_of(_STRATEGY), "strategies"),
}

# Swept settings of each question, by field of the point; the axes have the last part's name.
AXES: dict[str, tuple[str, ...]] = {
    "operators": (
        *("model.kind", "optimizer.schedule", "seed"),
        *("index", "block_size", "source"),
    ),
    "stacking": ("model.kind", "optimizer.schedule", "seed", "strategy"),
}


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns the swept settings of every point: network x schedule x seed x operator or strategy.

    The points of a network, schedule and seed follow each other.
    """
    return product({name: config.sweep[name.split(".")[-1]] for name in AXES[config.question]})


def total_steps(config: ml_collections.ConfigDict) -> int:
    """Returns the steps from the first of the shallow network to the last of the deepest."""
    if config.question == "stacking":
        return sum(config.stage_steps)
    return config.base_steps + config.grow_steps


def _refuse(name: str, value: object, accepted: str) -> None:
    raise InputError(f"config.{name} is {value!r}; accepted: {accepted}")


def _check_sizes(config: ml_collections.ConfigDict) -> None:
    model, data = config.model, config.data
    if model.width % model.heads or (model.width // model.heads) % 2:
        accepted = f"with an even quotient of width {model.width}"
        _refuse("model.heads", model.heads, accepted)
    if data.validation_windows % config.batch_size:
        _refuse(
            "data.validation_windows",
            data.validation_windows,
            f"multiples of the batch size {config.batch_size}",
        )
    if data.shares and len(data.shares) != len(data.sources):
        _refuse("data.shares", data.shares, f"none, or one for each of {len(data.sources)} sources")
    if data.shares and not math.isclose(sum(data.shares), 1.0):
        _refuse("data.shares", data.shares, "shares that add up to 1")


def _check_operator(config: ml_collections.ConfigDict) -> None:
    if config.added > config.layers:
        _refuse("added", config.added, f"at most the {config.layers} layers there are")
    if config.index > config.layers - config.added:
        _refuse("index", config.index, f"at most layers - added = {config.layers - config.added}")
    if config.added % config.block_size:
        _refuse("block_size", config.block_size, f"divisors of added = {config.added}")
    if config.lag_steps > config.grow_steps:
        _refuse("lag_steps", config.lag_steps, f"at most the {config.grow_steps} steps of growing")
    if config.dense_steps > config.grow_steps:
        _refuse("dense_steps", config.dense_steps, f"at most the {config.grow_steps} of growing")


def _check_downstream(config: ml_collections.ConfigDict) -> None:
    tasks = config.downstream.tasks
    if not tasks:
        return
    if config.model.kind != "decoder" or config.question != "operators":
        _refuse("downstream.tasks", tasks, "(), or a decoder that is grown once")
    if config.downstream.answer_tokens > config.data.length - 2:
        most = f"at most data.length - 2 = {config.data.length - 2}"
        _refuse("downstream.answer_tokens", config.downstream.answer_tokens, most)


def _check_stages(config: ml_collections.ConfigDict) -> None:
    steps, strides = config.stage_steps, config.index_strides
    if len(steps) < 2:
        _refuse("stage_steps", steps, "two stages or more")
    if len(strides) != len(steps) - 1:
        _refuse("index_strides", strides, f"one for each of the {len(steps) - 1} later stages")
    if config.lag_steps > min(steps[1:]):
        _refuse("lag_steps", config.lag_steps, f"at most the {min(steps[1:])} steps of a stage")
    if config.layers < config.added:
        _refuse("added", config.added, f"at most the {config.layers} layers of the first stage")
    for size in config.sweep.block_size:
        if config.added % size:
            _refuse("sweep.block_size", size, f"divisors of added = {config.added}")


def _check(config: ml_collections.ConfigDict) -> None:
    """Raises unless the fields fit together."""
    _check_sizes(config)
    (_check_stages if config.question == "stacking" else _check_operator)(config)
    if config.optimizer.warmup_steps >= total_steps(config):
        steps = total_steps(config)
        _refuse("optimizer.warmup_steps", config.optimizer.warmup_steps, f"below {steps} steps")
    _check_downstream(config)


SETTINGS = Settings(FIELDS, sweep, check=_check)
default_config, validate = SETTINGS.default_config, SETTINGS.validate
