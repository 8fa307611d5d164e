r"""Figures 5.2 and 5.3, table 5.1, Karp 2024 (thesis): BERT-Base grown from 12 to 16 layers.

    python -m launch.sweep --config=configs/growing/bert.py --workdir=runs/growing_bert \
        --data_dir=DIR

DIR holds books/ and wikipedia/, folders of UTF-8 *.txt; or set config.data.sources to data sets,
hf:PATH:NAME. 500,000 steps at batch 256 x 512, then 30 operators, 100,000 steps each, for
accelerators. ":small" is the same network on DIR's text/, two steps at a batch of 4 x 64, to see
that it starts: no result. It needs 11 GB of memory.
"""

from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_FEW_STEPS = {
    "data.sources": ("text",),
    "data.max_characters": 400_000,
    "data.validation_every": 10,
    "base_steps": 2,
    "grow_steps": 2,
    "dense_steps": 1,
    "lag_steps": 1,
    "optimizer.warmup_steps": 1,
    "sweep.index": (0, 8),
    "sweep.block_size": (4,),
}

_SMALL = _FEW_STEPS | {"data.length": 64, "batch_size": 4, "data.validation_windows": 4}

_QUICK = _FEW_STEPS | {
    "data.max_characters": 60_000,
    "data.vocabulary_size": 300,
    "data.length": 16,
    "data.validation_windows": 8,
    "batch_size": 8,
    "model.width": 24,
    "model.hidden": 24,
}


get_config = configurations(
    SETTINGS,
    full={
        "title": "BERT-Base grown from 12 to 16 layers (figures 5.2 and 5.3, table 5.1)",
        "data.sources": ("books", "wikipedia"),
        "data.vocabulary_size": 30_522,
        "data.length": 512,
        "data.validation_every": 1000,
        "data.validation_windows": 1024,
        "model.kind": "encoder",
        "model.width": 768,
        "model.heads": 12,
        "model.hidden": 3072,
        "model.dtype": "bfloat16",
        "optimizer.learning_rate": 1e-4,
        "optimizer.warmup_steps": 10_000,
        "layers": 12,
        "added": 4,
        "batch_size": 256,
        "base_steps": 500_000,
        "grow_steps": 100_000,
        "dense_steps": 200,
        "eval_every": 1000,
        # The loss of the last step alone is final, as in the thesis.
        "final_share": 1e-6,
        "lag_steps": 200,
        "layout": "batch",
        "checkpoint_every": 500,
        "sweep.index": (0, 2, 4, 6, 8),
        "sweep.block_size": (1, 2, 4),
    },
    small=_SMALL,
    quick=_QUICK,
)
