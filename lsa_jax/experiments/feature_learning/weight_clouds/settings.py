"""Configuration fields: directions of the neurons of a two-layer network.

Sources of the defaults: Shi, Wei and Liang (ICLR 2022), appendices E.3.2 and E.4. The paper gives
no loss, rate, batch or scale of its initial weights; those below are ours.
"""

from lsa_jax.checks import integer, number, one_of, tuple_of
from lsa_jax.sweep.fields import Field, Rule, Settings, heading, measure_fields, product_of

_SEED, _STD = integer(0), number(0, above=True)

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Neurons of a two-layer network"),
    "seed": Field(0, _SEED, "draws the data or the initial network, and the batches"),
    # The data.
    "data.dataset": Field("mnist", one_of("mnist", "cifar10", "svhn", "digits", "gaussian_mixture"),
        "two classes of images, or clusters whose label is a parity"),
    "data.classes": Field((0, 1), tuple_of(integer(0)), "images: labels -1 and 1"),
    "data.num_train": Field(20_000, integer(2), "training examples at most"),
    "data.num_test": Field(10_000, integer(2), "test examples at most"),
    "data.d": Field(100, integer(1), "mixture: dimension"),
    "data.k": Field(4, integer(1), "mixture: orthonormal directions, of 2^k clusters"),
    "data.sigma_r": Field(1.0, number(0, above=True), "mixture: sigma_r"),
    "data.variance": Field("k/d", one_of("k/d", "1/d"),
        "mixture: a coordinate's variance over sigma_r^2"),
    # The network and its training.
    "m": Field(50, integer(3), "neurons; a silhouette needs more neurons than clusters"),
    "init_std": Field(1 / 784, _STD, "of the first layer's entries"),
    "output_std": Field(50**-0.5, _STD, "of the second layer's entries"),
    "loss": Field("hinge", one_of("hinge", "logistic"), "of an example"),
    "learning_rate": Field(0.05, number(0, above=True), "of both layers"),
    "momentum": Field(0.95, number(0, 1), "of both layers"),
    "batch_size": Field(256, integer(1), "examples a step"),
    "pictures": Field((0, 3, 10, 50, 200), tuple_of(integer(0)),
        "steps after which weights are drawn; the last ends"),
    "clusters": Field(2, integer(2), "that directions are split into, by spherical k-means"),
    **measure_fields(),
    # The axes of the sweep: scale of the first layer x seed.
    "sweep.init_std": Field((), tuple_of(_STD), "scales; none takes init_std alone"),
    "sweep.seed": Field((0, 1, 2, 3, 4), tuple_of(_SEED), "seeds"),
}
# fmt: on


# fmt: off
_RULES = (
    Rule("pictures", lambda c: len(c.pictures) > 1 and list(c.pictures) == sorted({*c.pictures}),
         "two steps or more, rising"),
    Rule("data.classes", lambda c: len({*c.data.classes}) == 2, "two classes"),
    Rule("data.k", lambda c: c.data.dataset != "gaussian_mixture" or c.data.k <= c.data.d,
         "at most d, {c.data.d}"),
)
# fmt: on

SETTINGS = Settings(FIELDS, product_of("init_std", "seed", optional=("init_std",)), _RULES)
