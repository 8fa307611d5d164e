"""Settings: ways to grow a Transformer in depth, and which to choose.

Sources of the defaults: Karp (thesis, 2024), chapter 5 and appendix C, where they are not a matter
of size.
"""

import math

from lsa_jax.checks import boolean, integer, number, one_of, optional, text, tuple_of
from lsa_jax.reporting.courses import OF_WEIGHTS
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, measure_fields, product_of

_KIND, _SCHEDULE = one_of("encoder", "decoder"), one_of("constant", "cosine")
_SEED, _INDEX, _BLOCK, _SOURCE = integer(0), integer(0), integer(1), one_of("copy", "random")
_STRATEGY = one_of("last", "adaptive")

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Growing in depth"),
    "question": Field("operators", one_of("operators", "stacking"),
        "all ways to grow once; or growing in stages, by the last block or by the best way"),
    "seed": Field(0, _SEED, "draws the network, the order of the text and the masked tokens"),
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
    "model.dtype": Field("float32", one_of("float32", "bfloat16"), "type of layers' values"),
    "model.remat": Field(None, optional(boolean()),
        "compute layers and logits twice to save memory; None means on accelerators that need it"),
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
    "source": Field("copy", _SOURCE, "content of the new layers"),
    # Times of measurements, and averages of losses.
    "dense_steps": Field(200, integer(0), "steps after growing that are watched closely"),
    "dense_every": Field(1, integer(1), "steps between measurements there"),
    "eval_every": Field(10, integer(1), "steps between measurements later, and before growing"),
    "smooth_steps": Field(11, integer(1), "centred window of the early losses; step 0 stays"),
    "final_share": Field(0.25, number(0, 1, above=True), "of the last steps: their mean is final"),
    "lag_steps": Field(200, integer(0), "k of LAG@k"),
    "lag_window": Field(1, integer(1), "steps up to k whose mean decides"),
    # Tasks of grown decoders.
    "downstream.tasks": Field((), tuple_of(text()),
        "NAME of NAME.jsonl (NAME:word: first words), or last_word"),
    "downstream.examples": Field(1000, integer(1), "items of a task at most"),
    "downstream.answer_tokens": Field(16, integer(1), "of a completion"),
    # Growing in stages.
    "strategy": Field("adaptive", _STRATEGY, "the best of the space by LAG, or the last block"),
    "stage_steps": Field((100, 100), tuple_of(integer(1)), "of each stage, the first one too"),
    "index_strides": Field((1,), tuple_of(integer(1)), "of each later stage's indices"),
    # Devices.
    "layout": Field("replicas", one_of("replicas", "batch"),
        "operators side by side, or one on all devices"),
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
# fmt: on

# Swept settings of each question, by field of the point; the axes have the last part's name.
AXES: dict[str, tuple[str, ...]] = {
    "operators": ("model.kind", "optimizer.schedule", "seed", "index", "block_size", "source"),
    "stacking": ("model.kind", "optimizer.schedule", "seed", "strategy"),
}


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the points: network x schedule x seed x operator or strategy."""
    return product_of(*AXES[config.question])(config)


def total_steps(config: Config) -> int:
    """Returns the steps from the first of the shallow network to the last of the deepest."""
    if config.question == "stacking":
        return sum(config.stage_steps)
    return config.base_steps + config.grow_steps


def _where(question: str, *rules: Rule) -> list[Rule]:
    """Returns rules that hold for one question alone."""
    return [
        rule._replace(holds=lambda c, own=rule.holds: c.question != question or own(c))
        for rule in rules
    ]


# fmt: off
RULES = (
    Rule("model.heads",
         lambda c: not c.model.width % c.model.heads and not (c.model.width // c.model.heads) % 2,
         "with an even quotient of width {c.model.width}"),
    Rule("data.validation_windows", lambda c: not c.data.validation_windows % c.batch_size,
         "multiples of the batch size {c.batch_size}"),
    Rule("data.shares", lambda c: len(c.data.shares) in (0, len(c.data.sources)),
         "none, or one for each of {c.data.sources}"),
    Rule("data.shares", lambda c: not c.data.shares or math.isclose(sum(c.data.shares), 1.0),
         "shares that add up to 1"),
    *_where("stacking",
        Rule("stage_steps", lambda c: len(c.stage_steps) >= 2, "two stages or more"),
        Rule("index_strides", lambda c: len(c.index_strides) == len(c.stage_steps) - 1,
             "one for each later stage of {c.stage_steps}"),
        Rule("lag_steps", lambda c: c.lag_steps <= min(c.stage_steps[1:]),
             "at most the steps of a later stage of {c.stage_steps}"),
        Rule("sweep.block_size", lambda c: not any(c.added % size for size in c.sweep.block_size),
             "divisors of added = {c.added}")),
    Rule("added", lambda c: c.added <= c.layers, "at most the {c.layers} layers there are"),
    *_where("operators",
        Rule("index", lambda c: c.index <= c.layers - c.added, "at most {c.layers} - {c.added}"),
        Rule("block_size", lambda c: not c.added % c.block_size, "divisors of added = {c.added}"),
        *(Rule(n, lambda c, n=n: c[n] <= c.grow_steps,
               "at most the {c.grow_steps} steps of growing")
          for n in ("lag_steps", "dense_steps"))),
    Rule("optimizer.warmup_steps", lambda c: c.optimizer.warmup_steps < total_steps(c),
         "fewer than all steps"),
    Rule("downstream.tasks",
         lambda c: not c.downstream.tasks or (c.model.kind, c.question) == ("decoder", "operators"),
         "(), or a decoder that is grown once"),
    Rule("downstream.answer_tokens",
         lambda c: not c.downstream.tasks or c.downstream.answer_tokens <= c.data.length - 2,
         "at most data.length - 2, of data.length {c.data.length}"),
)
# fmt: on

SETTINGS = Settings(FIELDS, sweep, RULES)
