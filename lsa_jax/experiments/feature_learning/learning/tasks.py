"""The problem that a seed draws: relevant patterns, examples, and the direction to be found."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning import dictionary
from lsa_jax.experiments.feature_learning.dictionary import PatternLaw
from lsa_jax.sweep.fields import Config


class Learning:
    """Random streams of a seed's key: start and batches of the learner, problem and data.

    `NOISE` is of a split's key.
    """

    INIT, ORDER = 0, 1
    RELEVANT, VECTORS, DICTIONARY, TRAIN, TEST, NOISE = range(10, 16)


class PatternTask(NamedTuple):
    """The problem that all learners of a seed have.

    Attributes:
        train: normalised inputs [n, p], targets [n], -1.0 or 1.0.
        test: likewise, normalised with the training inputs' mean and scale.
        direction: the ground truth: sum_j gamma_j M_j over A at length 1, gamma taken from the
            training examples' patterns where they differ.
        gamma: mean |E[y phi_j] - E[y] E[phi_j]| over A, always with structure: without, it is 0,
            and the network is to be the same.
        scale: s, by which inputs are divided.
    """

    train: Dataset
    test: Dataset
    direction: Float[np.ndarray, " p"]
    gamma: float
    scale: float


def make_law(config: Config, *, structured: bool) -> PatternLaw:
    """Returns the law of patterns and labels of a seed, with structure or without."""
    data, key = config.data, jax.random.key(config.seed)
    of_relevant = jax.random.fold_in(key, Learning.RELEVANT)
    relevant = np.sort(np.asarray(jax.random.permutation(of_relevant, data.num_patterns))[: data.k])
    if data.labels == "vectors":
        vectors_key = jax.random.fold_in(key, Learning.VECTORS)
        return dictionary.hidden_vectors(
            vectors_key, data.num_patterns, relevant, data.vectors_per_class
        )
    if data.labels == "interval":
        probabilities = np.full(data.num_patterns, 0.5)
        probabilities[relevant] = data.relevant_probability
        low, high = data.interval
        label = dictionary.count_label(relevant, tuple(range(low, high + 1)))
        law = dictionary.independent_patterns(probabilities, relevant, label)
    else:
        spread = np.linspace(0, data.probability_spread, data.num_patterns)
        law = dictionary.parity_mixture(
            data.num_patterns,
            relevant,
            data.p0,
            probabilities=0.5 + spread,
            ones_share=data.ones_share,
        )
    return law if structured else dictionary.without_structure(law)


def make_task(config: Config) -> PatternTask:
    """Draws a seed's examples; raises InputError where all for training have one label.

    With an orthonormal dictionary and no noise, inputs are their coordinates in it, p = D: a
    network depends on an input x through <w, x> = <M^T w, phi> alone, and descent on w keeps to the
    span of M. Otherwise inputs are in input space, p = d.
    """
    data, key = config.data, jax.random.key(config.seed)
    law = make_law(config, structured=config.structured)
    matrix = None
    if data.dictionary != "orthonormal" or data.noise_std > 0:
        draw = getattr(dictionary, f"{data.dictionary}_dictionary")
        matrix = draw(jax.random.fold_in(key, Learning.DICTIONARY), data.d, data.num_patterns)
    splits = []
    for stream, count in ((Learning.TRAIN, data.num_train), (Learning.TEST, data.num_test)):
        split_key = jax.random.fold_in(key, stream)
        x, y = dictionary.draw_patterns(split_key, count, law, data.negative_share)
        if matrix is not None:
            noise_key = jax.random.fold_in(split_key, Learning.NOISE)
            x = np.asarray(dictionary.compose(noise_key, x, matrix, data.noise_std))
        splits.append((x, y))
    if len(labels := set(splits[0][1].tolist())) < 2:
        raise InputError(
            f"config.data gives all {data.num_train} training examples the label {labels.pop():g}; "
            "accepted: a law, negative_share and num_train with both labels"
        )
    mean, scale = dictionary.normalisation(splits[0][0])
    # The training examples' patterns with structure, also where these examples have none.
    own = jax.random.fold_in(key, Learning.TRAIN), data.num_train
    structured = make_law(config, structured=True), data.negative_share
    patterns = dictionary.draw_patterns(*own, *structured)
    gammas = dictionary.correlations(*patterns)[law.relevant]
    truth = np.zeros(data.num_patterns, np.float32)
    # Patterns that are equally likely count alike; elsewhere correlations differ in size and sign.
    equal = data.labels != "vectors" and data.probability_spread == 0
    truth[law.relevant] = 1.0 if equal else gammas
    direction = truth if matrix is None else np.asarray(matrix) @ truth
    return PatternTask(
        *(Dataset(((x - mean[None]) / scale).astype(np.float32), y) for x, y in splits),
        direction=direction / np.linalg.norm(direction),
        gamma=float(np.abs(gammas).mean()),
        scale=scale,
    )
