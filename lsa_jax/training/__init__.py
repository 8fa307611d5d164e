"""Training: the one loop, losses, optimisers and schedules, checkpoints."""

from lsa_jax.training.loop import Evaluation, History, train
from lsa_jax.training.losses import LOSSES, is_correct
from lsa_jax.training.optimizers import OPTIMIZERS, SCHEDULES, make_optimizer, make_schedule
from lsa_jax.training.programs import Source
from lsa_jax.training.segments import Checkpoints

__all__ = [
    "LOSSES",
    "OPTIMIZERS",
    "SCHEDULES",
    "Checkpoints",
    "Evaluation",
    "History",
    "Source",
    "make_optimizer",
    "make_schedule",
    "is_correct",
    "train",
]
