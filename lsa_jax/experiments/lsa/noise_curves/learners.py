"""The learners of the noise curves: one entry each in `LEARNERS`.

Settings, runs and reports use these entries. Nothing here imports jax before a learner runs.
"""

import functools
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from lsa_jax.checks import boolean, integer, number, one_of, optional, tuple_of
from lsa_jax.sweep.fields import Config, Field

if TYPE_CHECKING:
    from jaxtyping import Array

    from lsa_jax.models.model import Model

_PARAMETERIZATION = (one_of("ntk", "standard"), "where the weights' scale sits")
_LOSS = one_of("softmax_cross_entropy", "class_mean_cross_entropy", "squared_error")

# Training images whose statistics batch normalisation has in a kernel: as many as a batch of
# evaluation, whose statistics it has in a trained network.
_OF_STATISTICS = 512


class Trained(NamedTuple):
    """A model that is trained, made of the network that all learners share."""

    model: "Model"
    frozen: tuple[str, ...] = ()  # parts of its parameters that training leaves as they are
    network: Callable[[Any], Any] = lambda params: params  # from its parameters to the network's


class Learner(NamedTuple):
    """A learner: its name, its settings and its functions.

    Attributes:
        label: its name in tables and figures.
        colors: of its curves, one for each of its widths.
        fields: its own settings, with `parameterization` but for one that follows another. One that
            solves has `ridge_fields`, one that trains has `training_fields`, one that may do both
            has a `method` too.
        kernel: `(key, model, inputs, method) -> kernel` of one that solves for its predictions,
            with its training inputs; the method "neural_tangents" is that library's.
        follows: the learner whose trained parameters it takes: its kernel is the finite NTK there.
        learn: of one whose kernel learns before it solves: `(kernel, settings, inputs, targets,
            **options) -> kernels` before and after each update; the options are those of
            `kernels.recursive_feature_machine`.
        trained: `(model, settings) -> Trained` of one that trains.
    """

    label: str
    colors: tuple[str, ...]
    fields: Mapping[str, Field]
    kernel: Callable[["Array", "Model", tuple[int, ...], str], Callable] | None = None
    follows: str | None = None
    learn: Callable[..., list[Callable]] | None = None
    trained: Callable[["Model", Config], Trained] | None = None

    @property
    def is_learned_kernel(self) -> bool:
        """Whether it is a kernel that has learned features; the papers make no claim about one."""
        return self.follows is not None or self.learn is not None


def training_fields(**defaults: object) -> dict[str, Field]:
    """Returns the fields of a learner that is trained by gradient descent."""
    rate, count = number(0, above=True), integer(1)
    fields = {
        "parameterization": Field("standard", *_PARAMETERIZATION),
        "loss": Field("softmax_cross_entropy", _LOSS, "loss of an example"),
        "optimizer": Field("sgd", one_of("sgd", "momentum", "adam", "adamw"), "update rule"),
        "learning_rate": Field(0.1, rate, "rate at the start"),
        "momentum": Field(0.9, number(0, 1), "mass of the momentum optimiser"),
        "weight_decay": Field(0.0, number(0), "lambda of the penalty on |theta|^2"),
        "penalty_factor": Field(0.5, one_of(0.5, 1.0), "factor of lambda |theta|^2"),
        "schedule": Field("steps", one_of("constant", "cosine", "steps"), "course of the rate"),
        "decay_epochs": Field((), tuple_of(rate), "steps schedule: when the rate falls"),
        "decay_factor": Field(0.2, number(0, 1, above=True), "steps schedule: the rate's factor"),
        "warmup_epochs": Field(0.0, number(0), "epochs in which the rate rises to its course"),
        "epochs": Field(200, count, "passes over the training examples"),
        "batch_size": Field(128, count, "examples a step"),
        "eval_every": Field(10, count, "epochs between evaluations"),
        "checkpoint_every": Field(10, count, "epochs between checkpoints"),
    }
    return {
        n: field._replace(default=defaults.get(n, field.default)) for n, field in fields.items()
    }


# fmt: off
def ridge_fields(doc: str) -> dict[str, Field]:
    """Returns the fields of a learner that solves a ridge regression."""
    return {
        "ridge": Field((1e-5,), tuple_of(number(0)), doc),
        "solver": Field("cholesky", one_of("cholesky", "conjugate_gradients", "nystrom", "auto"),
            "factorise the matrix, keep half of it on disk and solve by iterations, or compose "
            "images batch by batch and sum over kernels at centres among them; auto: the faster "
            "one of the first two that fits"),
        "centres": Field(2000, integer(1), "nystrom: training images that are centres"),
        "centre_noise": Field(None, optional(number(0)),
            "nystrom: noise behind centres; None: as behind all images"),
        "tolerance": Field(1e-6, number(0, 1, above=True),
            "conjugate_gradients: residual over the targets' size"),
    }
# fmt: on


def linearized_model(model: "Model") -> "Model":
    """Returns the network linearised at its own initialisation, as a model to be trained.

    Its parameters are `initial` (to be frozen) and `weights`, which are equal at the start.
    """
    from lsa_jax import kernels
    from lsa_jax.models.model import Model, accepted

    def init(key: "Array", input_shape: tuple[int, ...]) -> dict[str, Any]:
        initial = model.init(key, input_shape)
        return {"initial": initial, "weights": initial}

    def apply(params: dict[str, Any], inputs: "Array", counted: "Array | None" = None) -> "Array":
        network = functools.partial(model.apply, **accepted(model.apply, counted=counted))
        linear = kernels.linearize(network, params["initial"], precision="default")
        return linear(params["weights"], inputs)

    return Model(init, apply, None)


def trained_network(model: "Model", settings: Config) -> Trained:
    """Returns the network itself, or with an output scale its change times that."""
    if settings.output_scale is None:
        return Trained(model)
    from lsa_jax.models.scaled import FROZEN, network_params, scaled

    alpha = settings.output_scale
    return Trained(scaled(model, alpha), FROZEN, lambda params: network_params(params, alpha))


def kernel_at(params: Any, model: "Model", inputs: "Array", method: str) -> Callable:
    """Returns a network's finite NTK; batch normalisation has the statistics of first inputs."""
    from lsa_jax import kernels

    apply = model.apply
    if model.statistics:
        fixed = model.statistics(params, inputs[:_OF_STATISTICS])
        apply = functools.partial(apply, statistics=fixed)
    return kernels.finite_kernel(apply, params, method=method)


def _machine(
    kernel: Callable, settings: Config, *examples: "Array", **options: Any
) -> list[Callable]:
    """Returns the kernels of a recursive feature machine, from that before the first update on."""
    from lsa_jax import kernels

    assert isinstance(kernel, kernels.InfiniteKernel)
    options |= {name: settings[name] for name in ("updates", "points", "power")}
    found = kernels.recursive_feature_machine(
        kernel.transformed,
        *examples,
        size=kernel.transform_size(examples[0].shape[1:]),
        ridge=settings.ridge[0],
        **options,
    )
    return list(map(kernel.transformed, found.transforms[:-1])) + [found.kernel]


_SCALE = Field("ntk", _PARAMETERIZATION[0], "where the scale sits")

# fmt: off
LEARNERS: dict[str, Learner] = {
    "network": Learner(
        label="network",
        colors=("#0072B2",),
        fields=training_fields(optimizer="momentum", weight_decay=0.0005,
                               decay_epochs=(80.0, 100.0, 120.0)) | {
            "parameterization": Field("standard", one_of("ntk", "standard", "mup"),
                "where the weights' scale sits; mup has rates of its own, and width factor 1 as "
                "its base"),
            "output_scale": Field(None, optional(number(0, above=True)),
                "alpha: trains alpha (f - f_0), lazy where it is large; None trains f"),
        },
        trained=trained_network,
    ),
    "ntk_finite": Learner(
        label="finite NTK",
        colors=("#E69F00", "#D55E00", "#CC79A7", "#8C510A", "#56B4E9", "#999999"),
        fields={
            "method": Field("gradient_descent", one_of("gradient_descent", "regression"),
                "train the linearised network, or solve for its kernel exactly"),
            **training_fields(parameterization="ntk", optimizer="adam", learning_rate=0.001,
                              decay_epochs=(140.0, 170.0), batch_size=50),
            **ridge_fields("regression: as ntk_infinite.ridge"),
        },
        kernel=lambda key, model, inputs, method: kernel_at(
            model.init(key, inputs.shape[1:]), model, inputs, method),
        trained=lambda model, settings: Trained(
            linearized_model(model), ("initial",), operator.itemgetter("weights")),
    ),
    "ntk_infinite": Learner(
        label="infinite NTK",
        colors=("#009E73",),
        fields={"parameterization": _SCALE} | ridge_fields(
            "ridge over the kernel's mean diagonal; of several, by leave-one-out errors"),
        kernel=lambda key, model, inputs, method: (
            model.kernel if method == "auto" else functools.partial(model.kernel, method=method)),
    ),
    "ntk_trained": Learner(
        label="NTK after training",
        colors=("#882255",),
        fields=ridge_fields("as ntk_infinite.ridge, of the trained network's kernel"),
        follows="network",
    ),
    "rfm": Learner(
        label="recursive feature machine",
        colors=("#56B4E9",),
        fields={
            "parameterization": _SCALE,
            "updates": Field(4, integer(0), "how often the kernel learns its features"),
            "points": Field(200, integer(1), "training examples at which gradients are averaged"),
            "power": Field(0.5, number(0, above=True), "of the average gradient outer product"),
            "every_update": Field(False, boolean(),
                "report the accuracy after each update, not just the last"),
            **ridge_fields("as ntk_infinite.ridge; of several, updates take the first"),
        },
        kernel=lambda key, model, inputs, method: model.kernel,
        learn=_machine,
    ),
}
# fmt: on


def is_exact(config: Config) -> bool:
    """Whether the learner solves for its predictions, without any training before."""
    has_kernel = LEARNERS[config.learner].kernel is not None
    return has_kernel and config[config.learner].get("method", "regression") == "regression"
