"""How lazy or rich the training of a one-layer Transformer is: measured on sequences' last tokens.

All tokens of a sequence together have n L outputs, whose derivatives would not fit; tokens are in
no order, so the last one stands for all.
"""

from typing import Any

import jax
import ml_collections
from jaxtyping import Array, Float, Int

from lsa_jax.experiments.transformers.one_layer import logits
from lsa_jax.training.course import Course, Measuring, course_of

Params = dict[str, Array]


def last_logits(params: Params, sequences: Int[Array, "b n"]) -> Float[Array, "b L"]:
    """Returns the logits of each sequence's last token."""
    return logits(params, sequences)[:, -1]


def make_course(
    config: ml_collections.ConfigDict,
    starts: Any,
    sequences: Int[Array, "sequences n"],
    labels: list[Int[Array, "sequences n"]],
    marks: list[int],
) -> Course | None:
    """Returns what is measured of a group along its training; None if nothing.

    Args:
        config: of the group.
        starts: parameters at the start, numpy arrays [replicas, ...].
        sequences: that are trained on.
        labels: of their tokens, one array a replica.
        marks: steps at which the run stops, the first that of the start.
    """

    def fetch(replica: int, index: Array) -> tuple[Array, Array]:
        wanted = labels[replica][index, -1]
        return sequences[index], jax.nn.one_hot(wanted, config.vocabulary_size)

    return course_of(
        Measuring(config.measures, config.measured_examples),
        last_logits,
        starts,
        fetch,
        len(sequences),
        marks,
        len(sequences) * marks[-1],
    )
