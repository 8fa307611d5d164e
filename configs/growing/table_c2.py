r"""Table C.2, Karp 2024 (thesis): BERT-Large grown in stages, last against adaptive stacking.

    python -m launch.sweep --config=configs/growing/table_c2.py --workdir=runs/table_c2 \
        --data_dir=DIR

4 to 24 layers in six stages, 1,000,000 steps at batch 256 x 512; adaptive stacking tries 93
candidates for 200 steps. DIR holds books/ and wikipedia/, folders of UTF-8 *.txt; for accelerators.
":small" is an encoder of width 64 on DIR's text/, 2 to 8 layers in four stages, 18 candidates for
50 steps, 3 seeds, for a CPU.
"""

from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

_SMALL = {
    "data.sources": ("text",),
    "data.vocabulary_size": 1024,
    "data.length": 64,
    "data.validation_every": 10,
    "data.validation_windows": 64,
    "model.width": 64,
    "model.heads": 4,
    "model.hidden": 192,
    "model.init_std": 0.07,
    "model.dtype": "float32",
    "optimizer.learning_rate": 1e-3,
    "optimizer.warmup_steps": 200,
    "layers": 2,
    "added": 2,
    "batch_size": 16,
    "stage_steps": (500, 300, 300, 400),
    "index_strides": (1, 1, 1),
    "lag_steps": 50,
    "lag_window": 25,
    "eval_every": 10,
    "final_share": 0.25,
    "layout": "replicas",
    "checkpoint_every": 100,
    "sweep.block_size": (1, 2),
    "sweep.seed": (0, 1, 2),
}

_QUICK = _SMALL | {
    "data.max_characters": 60_000,
    "data.vocabulary_size": 300,
    "data.length": 16,
    "data.validation_windows": 8,
    "model.width": 16,
    "model.heads": 2,
    "model.hidden": 16,
    "layers": 1,
    "added": 1,
    "batch_size": 8,
    "optimizer.warmup_steps": 2,
    "stage_steps": (6, 6, 6),
    "index_strides": (1, 1),
    "lag_steps": 3,
    "lag_window": 1,
    "eval_every": 2,
    "sweep.block_size": (1,),
    "sweep.seed": (0,),
}


get_config = configurations(
    SETTINGS,
    full={
        "title": "Growing in stages: last against adaptive stacking (table C.2)",
        "question": "stacking",
        "data.sources": ("books", "wikipedia"),
        "data.vocabulary_size": 30_522,
        "data.length": 512,
        "data.validation_every": 1000,
        "data.validation_windows": 1024,
        "model.kind": "encoder",
        "model.width": 1024,
        "model.heads": 16,
        "model.hidden": 4096,
        "model.dtype": "bfloat16",
        "optimizer.learning_rate": 1e-4,
        "optimizer.warmup_steps": 10_000,
        "layers": 4,
        "added": 4,
        "batch_size": 256,
        "stage_steps": (160_000,) * 5 + (200_000,),
        "index_strides": (1, 1, 1, 2, 2),
        "lag_steps": 200,
        "eval_every": 1000,
        "final_share": 1e-6,
        "layout": "batch",
        "checkpoint_every": 500,
        "sweep.block_size": (1, 2, 4),
    },
    small=_SMALL,
    quick=_QUICK,
)
