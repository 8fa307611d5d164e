"""Training: the loop, losses, optimisers and schedules, measures, checkpoints."""

from lsa_jax.training import growth, measures, steps
from lsa_jax.training.course import Measuring
from lsa_jax.training.loop import Evaluation, History, train
from lsa_jax.training.losses import (
    LOSSES,
    class_mean_cross_entropy,
    hinge,
    is_correct,
    logistic,
    softmax_cross_entropy,
    squared_error,
)
from lsa_jax.training.optimizers import (
    OPTIMIZERS,
    SCHEDULES,
    make_optimizer,
    make_schedule,
)
from lsa_jax.training.programs import Source
from lsa_jax.training.segments import Checkpoints

__all__ = [
    "Checkpoints",
    "Evaluation",
    "History",
    "LOSSES",
    "Measuring",
    "OPTIMIZERS",
    "SCHEDULES",
    "Source",
    "class_mean_cross_entropy",
    "growth",
    "hinge",
    "is_correct",
    "logistic",
    "make_optimizer",
    "make_schedule",
    "measures",
    "softmax_cross_entropy",
    "squared_error",
    "steps",
    "train",
]
