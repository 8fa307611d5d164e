"""Rows of results and configurations as the tests of the ResNet's claims make them."""

from lsa_jax.experiments.resnet.hierarchical import settings
from lsa_jax.sweep.variants import set_fields

# So many test examples that an error is as good as exact: within 0.03 %.
EXACT = 10**8


# k alpha^2 with k = 15 and alpha = 0.3, and the error of the answer 0.
SIGNAL, ZERO = 1.35, 16.35


def configure(**fields):
    axes = {
        "sweep.series": (("3resnet", "all"), ("3resnet", "hidden")),
        "sweep.baselines": (("3layer", "all"),),
        "sweep.beta": (1.0, 0.2),
        "sweep.seed": (0,),
        "num_train": 500,
    }
    return set_fields(settings.default_config(), {"d": 30, "num_test": EXACT} | axes | fields)


def row(net, learner, error, **changes):
    task = {"d": 30, "base_degree": 2, "composite_degree": 4, "outputs": 15, "num_train": 500}
    task |= {"alpha": 0.3, "beta": 1.0, "width": 200, "seed": 0}
    return {**task, "net": net, "learner": learner, "test_error": error} | changes
