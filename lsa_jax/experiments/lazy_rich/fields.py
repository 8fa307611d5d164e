"""Settings shared by the experiments on digits: the data, the network, its training."""

from lsa_jax.checks import integer, number, one_of, optional, tuple_of
from lsa_jax.sweep.fields import Field, Rule

# Parameterisations, as reports name them.
LABELS = {"ntk": "NTK", "standard": "standard", "mup": "muP"}
PARAMETERIZATION = one_of(*LABELS)

DATA: dict[str, Field] = {
    "data.dataset": Field("digits", one_of("digits", "mnist"), "source of the images"),
    "data.num_train": Field(None, optional(integer(1)), "training images; None takes all"),
    "data.num_test": Field(None, optional(integer(1)), "test images; None takes all"),
    "data.test_copies": Field(1, integer(1), "backgrounds on which each test image is placed"),
    "data.image_size": Field(8, integer(1), "side of the image, in pixels"),
    "data.background_size": Field(8, integer(1), "side of the background, in pixels"),
    "data.noise": Field(0.0, number(0), "standard deviation of the background"),
}

NETWORK: dict[str, Field] = {
    "model.name": Field("cnn", one_of("cnn", "mlp"), "family"),
    "model.channels": Field((16, 32), tuple_of(integer(1)), "cnn: channels at width factor 1"),
    "model.widths": Field((64, 64), tuple_of(integer(1)), "mlp: hidden widths at width factor 1"),
    "width_factor": Field(1, integer(1), "multiplies these; 1 is the base of muP"),
    "parameterization": Field("standard", PARAMETERIZATION, "scales of weights and rates"),
    "batch_size": Field(64, integer(1), "examples a step"),
    "seed": Field(0, integer(0), "draws initial weights, the order of examples, the backgrounds"),
}

TRAINING: dict[str, Field] = {
    "optimizer": Field("momentum", one_of("sgd", "momentum", "adam"), "update rule"),
    "epochs": Field(40, integer(1), "passes over the training examples"),
    "schedule": Field("cosine", one_of("constant", "cosine"), "course of the rate"),
    "warmup_epochs": Field(0.0, number(0), "epochs of warm-up"),
    "momentum": Field(0.9, number(0, 1), "mass of the momentum optimiser"),
    "max_replicas": Field(64, integer(1), "runs in one compiled program"),
}

RULES = (
    Rule(
        "data.image_size",
        lambda c: c.data.image_size <= c.data.background_size,
        "at most config.data.background_size, which is {c.data.background_size}",
    ),
)
