"""The learners of the noise curves: one entry each in `LEARNERS`.

Settings, runs and reports all go by these entries. Nothing here imports jax before a learner runs.
"""

import functools
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import ml_collections

from lsa_jax.checks import Kind, boolean, integer, number, one_of, optional, tuple_of
from lsa_jax.sweep.fields import Field

if TYPE_CHECKING:
    from jaxtyping import Array

    from lsa_jax.models.model import Model

_PARAMETERIZATION = (one_of("ntk", "standard"), "where the weights' scale sits")
_LOSS = one_of("softmax_cross_entropy", "class_mean_cross_entropy", "squared_error")


class Trained(NamedTuple):
    """What is trained, made of the network that all learners share.

    Attributes:
        model: it.
        frozen: the parts of its parameters that training leaves as they are.
        network: `(its parameters) -> the network's`.
    """

    model: "Model"
    frozen: tuple[str, ...] = ()
    network: Callable[[Any], Any] = lambda params: params


class Learner(NamedTuple):
    """A learner: how it is shown, what it may be told, and how it runs.

    Attributes:
        label: its name in tables and figures.
        colors: of its curves, one for each of its widths.
        fields: its own settings, with `parameterization` but for one that follows another. One that
            solves has `ridge_fields`, one that trains has `training_fields`, one that may do both
            has a `method` besides.
        kernel: `(key, model, input_shape) -> kernel` of one that solves for its predictions.
        follows: the learner that it takes the trained parameters of: its kernel is the finite NTK
            there. The other's settings say how that is trained.
        learn: of one whose kernel learns from the training examples before it solves:
            `(kernel, settings, task) -> kernels`, one after each update; the last is its own.
        trained: `(model, settings)` of one that trains: what it trains.
    """

    label: str
    colors: tuple[str, ...]
    fields: Mapping[str, Field]
    kernel: Callable[["Array", "Model", tuple[int, ...]], Callable] | None = None
    follows: str | None = None
    learn: Callable[..., list[Callable]] | None = None
    trained: Callable[["Model", ml_collections.ConfigDict], Trained] | None = None

    @property
    def is_learned_kernel(self) -> bool:
        """Whether it is a kernel that has learned features, of which the papers claim nothing."""
        return self.follows is not None or self.learn is not None


class LearningTask(NamedTuple):
    """What a kernel learns from, and how.

    Attributes:
        key: draws what is random in it.
        inputs: training images.
        targets: theirs, one-hot.
        memory: bytes that a tile may take; None leaves the choice.
        directory: keeps what is done.
        keep_matrices: whether the matrices of the kernels on the way are to be left there.
        progress: called with the fraction done.
    """

    key: "Array"
    inputs: "Array"
    targets: "Array"
    memory: float | None
    directory: Path
    keep_matrices: bool
    progress: Callable[[float], None]


def training_fields(**defaults: object) -> dict[str, Field]:
    """Returns the fields of a learner that is trained by gradient descent."""
    kinds: dict[str, tuple[Kind, str]] = {
        "parameterization": _PARAMETERIZATION,
        "loss": (_LOSS, "loss of an example"),
        "optimizer": (one_of("sgd", "momentum", "adam", "adamw"), "update rule"),
        "learning_rate": (number(0, above=True), "rate at the start"),
        "momentum": (number(0, 1), "mass of the momentum optimiser"),
        "weight_decay": (number(0), "lambda of the penalty on |theta|^2"),
        "penalty_factor": (one_of(0.5, 1.0), "what lambda |theta|^2 is multiplied by"),
        "schedule": (one_of("constant", "cosine", "steps"), "course of the rate"),
        "decay_epochs": (tuple_of(number(0, above=True)), "steps schedule: when the rate falls"),
        "decay_factor": (number(0, 1, above=True), "steps schedule: what it is multiplied by"),
        "warmup_epochs": (number(0), "how long the rate rises to its course"),
        "epochs": (integer(1), "passes over the training examples"),
        "batch_size": (integer(1), "examples a step"),
        "eval_every": (integer(1), "epochs between evaluations"),
        "checkpoint_every": (integer(1), "epochs between checkpoints"),
    }
    common = {
        "loss": "softmax_cross_entropy",
        "momentum": 0.9,
        "penalty_factor": 0.5,
        "schedule": "steps",
        "decay_factor": 0.2,
        "warmup_epochs": 0.0,
        "epochs": 200,
        "eval_every": 10,
        "checkpoint_every": 10,
    }
    values = common | defaults
    return {name: Field(values[name], kind, doc) for name, (kind, doc) in kinds.items()}


def ridge_fields(doc: str) -> dict[str, Field]:
    """Returns the fields of a learner that solves a ridge regression."""
    return {
        "ridge": Field((1e-5,), tuple_of(number(0)), doc),
        "solver": Field(
            "cholesky",
            one_of("cholesky", "conjugate_gradients", "nystrom", "auto"),
            "factorise the matrix, keep half of it on disk and solve by iterations, or compose "
            "images batch by batch and sum over kernels at centres among them; auto: the faster "
            "one of the first two that fits",
        ),
        "centres": Field(2000, integer(1), "nystrom: training images that are centres"),
        "centre_noise": Field(
            None, optional(number(0)), "nystrom: noise behind centres; None: that of all images"
        ),
        "tolerance": Field(
            1e-6,
            number(0, 1, above=True),
            "conjugate_gradients: residual over the targets' size",
        ),
    }


def linearized_model(model: "Model") -> "Model":
    """Returns the network linearised at its own initialisation, as a model to be trained.

    Its parameters are `initial` (to be frozen) and `weights`; at the start it computes what the
    network computes.
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


def trained_network(model: "Model", settings: ml_collections.ConfigDict) -> Trained:
    """Returns the network itself, or with an output scale its change times that."""
    if settings.output_scale is None:
        return Trained(model)
    from lsa_jax.models.scaled import FROZEN, network_params, scaled

    alpha = settings.output_scale
    return Trained(scaled(model, alpha), FROZEN, lambda params: network_params(params, alpha))


def _linearization(model: "Model", settings: ml_collections.ConfigDict) -> Trained:
    del settings
    return Trained(linearized_model(model), ("initial",), operator.itemgetter("weights"))


def _finite_ntk(key: "Array", model: "Model", input_shape: tuple[int, ...]) -> Callable:
    """Returns the kernel of the network that would be trained, as it is drawn."""
    from lsa_jax import kernels

    return kernels.finite_kernel(model.apply, model.init(key, input_shape))


def _machine(
    kernel: Callable, settings: ml_collections.ConfigDict, task: LearningTask
) -> list[Callable]:
    """Returns the kernels of a recursive feature machine, from that before the first update on."""
    from lsa_jax import kernels

    assert isinstance(kernel, kernels.InfiniteKernel)
    found = kernels.recursive_feature_machine(
        kernel.transformed,
        task.inputs,
        task.targets,
        key=task.key,
        size=kernel.transform_size(task.inputs.shape[1:]),
        updates=settings.updates,
        points=settings.points,
        ridge=settings.ridge[0],
        power=settings.power,
        memory_limit=task.memory,
        directory=task.directory,
        keep_matrices=task.keep_matrices,
        progress=task.progress,
    )
    return list(map(kernel.transformed, found.transforms[:-1])) + [found.kernel]


LEARNERS: dict[str, Learner] = {
    "network": Learner(
        label="network",
        colors=("#0072B2",),
        fields=training_fields(
            parameterization="standard",
            optimizer="momentum",
            learning_rate=0.1,
            weight_decay=0.0005,
            decay_epochs=(80.0, 100.0, 120.0),
            batch_size=128,
        )
        | {
            "parameterization": Field(
                "standard",
                one_of("ntk", "standard", "mup"),
                "where the weights' scale sits; mup has rates of its own, and width factor 1 as "
                "its base",
            ),
            "output_scale": Field(
                None,
                optional(number(0, above=True)),
                "alpha: trains alpha (f - f_0), lazy where it is large; None trains f",
            ),
        },
        trained=trained_network,
    ),
    "ntk_finite": Learner(
        label="finite NTK",
        colors=("#E69F00", "#D55E00", "#CC79A7", "#8C510A", "#56B4E9", "#999999"),
        fields={
            "method": Field(
                "gradient_descent",
                one_of("gradient_descent", "regression"),
                "train the linearised network, or solve for its kernel exactly",
            ),
            **training_fields(
                parameterization="ntk",
                optimizer="adam",
                learning_rate=0.001,
                weight_decay=0.0,
                decay_epochs=(140.0, 170.0),
                batch_size=50,
            ),
            **ridge_fields("regression: as ntk_infinite.ridge"),
        },
        kernel=_finite_ntk,
        trained=_linearization,
    ),
    "ntk_infinite": Learner(
        label="infinite NTK",
        colors=("#009E73",),
        fields={
            "parameterization": Field("ntk", _PARAMETERIZATION[0], "where the scale sits"),
            **ridge_fields(
                "ridge over the kernel's mean diagonal; of several, the best on held-out examples"
            ),
        },
        kernel=lambda key, model, input_shape: model.kernel,
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
            "parameterization": Field("ntk", _PARAMETERIZATION[0], "where the scale sits"),
            "updates": Field(4, integer(0), "how often the kernel's features are learned anew"),
            "points": Field(200, integer(1), "training examples at which gradients are averaged"),
            "power": Field(0.5, number(0, above=True), "of the average gradient outer product"),
            "every_update": Field(
                False, boolean(), "report the accuracy after each update, not just the last"
            ),
            **ridge_fields("as ntk_infinite.ridge; of several, updates take the first"),
        },
        kernel=lambda key, model, input_shape: model.kernel,
        learn=_machine,
    ),
}


def is_exact(config: ml_collections.ConfigDict) -> bool:
    """Whether the learner solves for its predictions, without any training before."""
    has_kernel = LEARNERS[config.learner].kernel is not None
    return has_kernel and config[config.learner].get("method", "regression") == "regression"
