"""Configuration fields: a teacher, and its student on real and injected inputs.

Sources of the defaults: Shi, Wei and Liang (ICLR 2022), appendix E.5. The paper gives no optimiser,
batch or epochs, no weight of the regulariser and no law of the Gaussian inputs; ours are below.
"""

from lsa_jax.checks import integer, number, one_of, optional, tuple_of
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, measure_fields, product

_SEED, _SIZE, _SHARE = integer(0), integer(1), number(0, 1)
_INJECTED = one_of("gaussian", "tiny_imagenet")

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Effect of input structure"),
    # One point.
    "learner": Field("student", one_of("student", "direct"),
        "on a mixture with the teacher's labels; or on the data set with its own"),
    "teacher_size": Field(9, _SIZE, "student: m of the teacher"),
    "size": Field(9, _SIZE, "m of the student, or of the network trained directly"),
    "share": Field(0.5, _SHARE,
        "student: alpha, share of injected inputs; 0 for the teacher's labels of L alone"),
    "seed": Field(0, _SEED, "draws initial networks, order and mixtures"),
    # The data.
    "data.dataset": Field("mnist", one_of("mnist", "cifar10", "svhn", "digits"),
        "the labelled inputs, L"),
    "data.injected": Field("gaussian", _INJECTED, "the inputs without labels, U"),
    "data.gaussian_law": Field("standard", one_of("standard", "pixelwise"),
        "gaussian: N(0, 1), or each pixel with its mean and variance in L"),
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
    "sweep.injected": Field((), tuple_of(_INJECTED),
        "injected inputs of students; none takes data.injected alone"),
    "sweep.share": Field((0.5,), tuple_of(_SHARE), "shares of injected inputs"),
    "sweep.seed": Field((0, 1, 2, 3, 4), tuple_of(_SEED), "seeds"),
}
# fmt: on


def _sweep(config: Config) -> list[dict[str, object]]:
    """Returns the networks on the data set, then students by injected inputs and teacher."""
    axes = config.sweep
    students = product({name: axes[name] for name in ("teacher_size", "size", "share", "seed")})
    direct = product({"size": axes.direct_size, "seed": axes.seed})
    kinds = [{"data.injected": kind} for kind in axes.injected] or [{}]
    return [{"learner": "direct"} | own for own in direct] + [
        {"learner": "student"} | own | kind for kind in kinds for own in students
    ]


def mixture_parts(share: float, count: int) -> tuple[int, int]:
    """Returns how many labelled and how many injected inputs a mixture has, of `count` of each.

    It is as much of the union of both as has the share: all of them at a half, all labelled and
    fewer injected ones below, all injected and fewer labelled ones above.
    """
    if share <= 0.5:
        return count, round(count * share / (1 - share))
    return round(count * (1 - share) / share), count


# fmt: off
_RULES = (
    Rule("measures", lambda c: not c.measures or c.model == "fc",
         "(), or config.model = 'fc': each example is measured by itself, and batch normalisation "
         "couples the examples of a batch"),
    Rule("data.gaussian_law",
         lambda c: c.data.injected == "gaussian" or c.data.gaussian_law == "standard",
         "'standard' where U is {c.data.injected}"),
    Rule("data.injected",
         lambda c: c.data.injected == "gaussian" or c.data.dataset in ("cifar10", "svhn"),
         "'gaussian' with the grey images of {c.data.dataset}"),
)
# fmt: on

SETTINGS = Settings(FIELDS, _sweep, _RULES)
