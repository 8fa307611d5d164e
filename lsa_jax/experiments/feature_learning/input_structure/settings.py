"""Settings: a student on real and injected inputs, one teacher.

Sources of the defaults: Shi, Wei and Liang (ICLR 2022), appendix E.5. The paper gives no optimiser,
batch or epochs, no weight of the regulariser and no law of the Gaussian inputs; ours are below.
"""

import ml_collections

from lsa_jax.checks import integer, number, one_of, optional, text, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.sweep.fields import Field, Settings, experiment_field, measure_fields

_SEED, _SIZE, _SHARE = integer(0), integer(1), number(0, 1)
_INJECTED = one_of("gaussian", "tiny_imagenet")

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("Effect of input structure", text(), "heading of the report"),
    # What one point is.
    "learner": Field(
        "student",
        one_of("student", "direct"),
        "on a mixture with the teacher's labels; or on the data set with its own",
    ),
    "teacher_size": Field(9, _SIZE, "student: m of the teacher"),
    "size": Field(9, _SIZE, "m of the student, or of the network trained directly"),
    "share": Field(
        0.5,
        _SHARE,
        "student: alpha, share of injected inputs; 0 for the teacher's labels of L alone",
    ),
    "seed": Field(0, _SEED, "draws initial networks, order and mixtures"),
    # The data.
    "data.dataset": Field(
        "mnist", one_of("mnist", "cifar10", "svhn", "digits"), "the labelled inputs, L"
    ),
    "data.injected": Field("gaussian", _INJECTED, "the inputs without labels, U"),
    "data.gaussian_law": Field(
        "standard",
        one_of("standard", "pixelwise"),
        "gaussian: N(0, 1), or each pixel with its mean and variance in L",
    ),
    "data.num_train": Field(None, optional(integer(2)), "images of L; None takes all"),
    "data.num_test": Field(None, optional(integer(2)), "test images of L; None takes all"),
    "data.seed": Field(0, _SEED, "draws subsets and U"),
    # Networks and training.
    "model": Field("fc", one_of("fc", "resnet"), "FC(m) or ResNet(m), teacher and student"),
    "optimizer": Field("adam", one_of("adam", "momentum"), "update rule"),
    "learning_rate": Field(1e-3, number(0, above=True), "rate"),
    "batch_size": Field(200, integer(1), "examples a step"),
    "teacher_epochs": Field(12, integer(1), "passes of the teacher over L and U"),
    "epochs": Field(12, integer(1), "passes of the student"),
    "regularizer": Field(1.0, number(0), "weight of R = R1 + lambda R2 on U, teacher"),
    "entropy": Field(0.1, number(0), "lambda"),
    "eval_every": Field(1, integer(1), "epochs between evaluations"),
    **measure_fields(),
    # The axes of the sweep: direct size x seed, then injected x teacher x student x share x seed.
    "sweep.direct_size": Field((9,), tuple_of(_SIZE), "networks trained on L directly"),
    "sweep.teacher_size": Field((9,), tuple_of(_SIZE), "teachers"),
    "sweep.size": Field((9,), tuple_of(_SIZE), "students"),
    "sweep.injected": Field(
        (), tuple_of(_INJECTED), "what students have injected; none takes data.injected alone"
    ),
    "sweep.share": Field((0.5,), tuple_of(_SHARE), "shares of injected inputs"),
    "sweep.seed": Field((0, 1, 2, 3, 4), tuple_of(_SEED), "seeds"),
}


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns the swept settings of every point: direct networks, then students by teacher."""
    axes = config.sweep
    points: list[dict[str, object]] = [
        {"learner": "direct", "size": size, "seed": seed}
        for size in axes.direct_size
        for seed in axes.seed
    ]
    return points + [
        {"learner": "student", "teacher_size": t, "size": size, "share": share, "seed": seed} | kind
        for kind in [{"data.injected": kind} for kind in axes.injected] or [{}]
        for t in axes.teacher_size
        for size in axes.size
        for share in axes.share
        for seed in axes.seed
    ]


def _check(config: ml_collections.ConfigDict) -> None:
    """Raises unless the fields fit together."""
    if config.measures and config.model != "fc":
        raise InputError(
            f"config.measures is {config.measures!r}; batch normalisation couples the examples of "
            "a batch, which are measured by themselves; accepted: (), or config.model = 'fc'"
        )
    if config.data.injected != "gaussian" and config.data.gaussian_law != "standard":
        raise InputError(
            f"config.data.gaussian_law is {config.data.gaussian_law!r}; accepted where U is "
            f"{config.data.injected}: 'standard'"
        )
    if config.data.injected == "tiny_imagenet" and config.data.dataset not in ("cifar10", "svhn"):
        raise InputError(
            f"config.data.injected is 'tiny_imagenet'; accepted with the grey images of "
            f"{config.data.dataset}: 'gaussian'"
        )


SETTINGS = Settings(FIELDS, sweep, check=_check)
default_config, validate = SETTINGS.default_config, SETTINGS.validate
