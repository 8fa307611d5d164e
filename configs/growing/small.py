r"""Figures 5.2 to 5.4, tables 5.1 and 5.2, Karp 2024 (thesis), small: growing from 6 to 8 layers.

    XLA_FLAGS=--xla_force_host_platform_device_count=2 \
    python -m launch.sweep --config=configs/growing/small.py --workdir=runs/growing_small \
        --data_dir=DIR

An encoder (masked tokens) and a decoder (UL2's mixture) of width 64, 12 operators (i in 0, 2, 4; b
in 1, 2; copy or random), 3 seeds, a constant and a decaying learning rate; DIR holds a folder text/
with UTF-8 *.txt of a million characters and more. Weights are initialised so that their gain is
that of BERT-Base: standard deviation 0.02 sqrt(768 / 64). All averaging windows were fixed before
the first run. ":small" is the same run, as this is the one for a CPU. ":extremes" has six operators
(i in 0, 2, 4; b = 2; copy or random) in the encoder at a constant rate, 2,000 steps after growing
and 5 seeds, as final losses of the 12 hardly differ by more than their noise. ":last_word" has the
same operators in the decoder and a task as in table C.1: the last word of held-out windows.
"""

from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "Growing a small encoder and a small decoder from 6 to 8 layers",
        "data.vocabulary_size": 1024,
        "data.length": 48,
        "data.validation_windows": 48,
        "model.width": 64,
        "model.heads": 4,
        "model.hidden": 192,
        "model.init_std": 0.07,
        "optimizer.learning_rate": 1e-3,
        "optimizer.peak_factor": 2.0,
        "optimizer.warmup_steps": 200,
        "layers": 6,
        "added": 2,
        "batch_size": 16,
        "base_steps": 1200,
        "grow_steps": 400,
        "dense_steps": 100,
        "dense_every": 2,
        "eval_every": 10,
        "smooth_steps": 11,
        "final_share": 0.25,
        "lag_steps": 100,
        "lag_window": 50,
        "checkpoint_every": 100,
        "sweep.kind": ("encoder", "decoder"),
        "sweep.schedule": ("constant", "cosine"),
        "sweep.seed": (0, 1, 2),
        "sweep.index": (0, 2, 4),
        "sweep.block_size": (1, 2),
    },
    small={},
    quick={
        "data.vocabulary_size": 300,
        "data.max_characters": 60_000,
        "data.length": 16,
        "data.validation_windows": 8,
        "model.width": 16,
        "model.heads": 2,
        "model.hidden": 16,
        "layers": 3,
        "added": 1,
        "batch_size": 8,
        "base_steps": 20,
        "grow_steps": 16,
        "dense_steps": 10,
        "eval_every": 2,
        "smooth_steps": 3,
        "lag_steps": 6,
        "lag_window": 2,
        "optimizer.warmup_steps": 5,
        "checkpoint_every": 20,
        "sweep.kind": ("encoder",),
        "sweep.index": (0, 2),
        "sweep.block_size": (1,),
        "sweep.seed": (0,),
    },
    # Operators far apart, for long enough and over enough seeds that their final losses differ by
    # more than the noise.
    extremes={
        "grow_steps": 2000,
        "sweep.kind": ("encoder",),
        "sweep.schedule": ("constant",),
        "sweep.block_size": (2,),
        "sweep.seed": (0, 1, 2, 3, 4),
    },
    last_word={
        "sweep.kind": ("decoder",),
        "sweep.schedule": ("cosine",),
        "sweep.block_size": (2,),
        "model.kind": "decoder",
        "downstream.tasks": ("last_word",),
        "downstream.examples": 2000,
        "downstream.answer_tokens": 8,
    },
)
