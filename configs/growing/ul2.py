r"""Figure 5.4, tables 5.2 and C.1, Karp 2024 (thesis): a UL2 decoder grown from 12 to 16 layers.

    python -m launch.sweep --config=configs/growing/ul2.py --workdir=runs/growing_ul2 \
        --data_dir=DIR

DIR holds c4/, wikipedia/, github/ and arxiv/, folders of UTF-8 *.txt; or set config.data.sources to
data sets, hf:PATH:NAME. 1.1 billion parameters, 300,000 steps of Adafactor at batch 256 x 1280 on a
cosine that goes on to step 400,000, then 30 operators, 100,000 steps each, for accelerators.
":small" is 12 and 16 layers of the same width with a smaller vocabulary on DIR's text/, two steps
at a batch of 1 x 64, to see that it starts: no result. It needs 23 GB of memory.

":table_c1" asks the grown decoders three tasks after one example: DIR then holds tydiqa.jsonl,
triviaqa.jsonl (the first line of a completion is the answer) and lambada.jsonl (its first word is),
an item a line, {"prompt": "...", "answers": ["..."]}; the first item is the example.
"""

from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_FEW_STEPS = {
    "data.sources": ("text",),
    "data.shares": (),
    "data.max_characters": 400_000,
    "data.validation_every": 10,
    "base_steps": 2,
    "grow_steps": 2,
    "dense_steps": 1,
    "dense_every": 1,
    "eval_every": 1,
    "lag_steps": 1,
    "optimizer.warmup_steps": 1,
    "checkpoint_every": 2,
    "sweep.index": (0, 8),
    "sweep.block_size": (4,),
}

_SMALL = _FEW_STEPS | {
    "data.vocabulary_size": 2000,
    "data.length": 64,
    "data.validation_windows": 1,
    "batch_size": 1,
}

_QUICK = _FEW_STEPS | {
    "data.max_characters": 60_000,
    "data.vocabulary_size": 300,
    "data.length": 16,
    "data.validation_windows": 8,
    "batch_size": 8,
    "model.width": 64,
    "model.hidden": 16,
}


get_config = configurations(
    SETTINGS,
    full={
        "title": "A UL2 decoder grown from 12 to 16 layers (figure 5.4, table 5.2)",
        "data.sources": ("c4", "wikipedia", "github", "arxiv"),
        "data.shares": (0.57, 0.17, 0.17, 0.09),
        "data.vocabulary_size": 256_000,
        "data.length": 1280,
        "data.validation_every": 1000,
        "data.validation_windows": 1024,
        "model.kind": "decoder",
        "model.width": 2048,
        "model.heads": 32,
        "model.hidden": 5120,
        "model.dtype": "bfloat16",
        "model.remat": True,
        "optimizer.name": "adafactor",
        "optimizer.learning_rate": 0.01,
        "optimizer.schedule": "cosine",
        "optimizer.end_factor": 0.1,
        "optimizer.warmup_steps": 10_000,
        "layers": 12,
        "added": 4,
        "batch_size": 256,
        "base_steps": 300_000,
        "grow_steps": 100_000,
        "dense_steps": 2000,
        "dense_every": 100,
        "eval_every": 1000,
        "smooth_steps": 1,
        # The loss of the last step alone is final, as in the thesis.
        "final_share": 1e-6,
        "lag_steps": 2000,
        "layout": "batch",
        "checkpoint_every": 100,
        "sweep.kind": ("decoder",),
        "sweep.schedule": ("cosine",),
        "sweep.index": (0, 2, 4, 6, 8),
        "sweep.block_size": (1, 2, 4),
    },
    small=_SMALL,
    quick=_QUICK,
    table_c1={"downstream.tasks": ("tydiqa", "triviaqa", "lambada:word")},
)
