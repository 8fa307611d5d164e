"""Settings: the tasks of the collection, and the budget of each diagnosis."""

from typing import Any, NamedTuple

from lsa_jax.checks import integer, number, one_of, optional, text, tuple_of
from lsa_jax.sweep.fields import Config, Field, Settings, heading

# Published data that each task's examples come from; all others are made.
_SOURCES = {
    "digits": "digits",
    "digits in noise": "digits",
    "digits, random labels": "digits",
    "MNIST": "mnist",
    "CIFAR-10": "cifar10",
    "CIFAR-10, animals or vehicles": "cifar10",
    "photographs": "folder",
}


class Task(NamedTuple):
    """A network and the data that it learns.

    Attributes:
        examples: the data, a name of `tasks.examples`.
        network: "MLP", "CNN", "ResNet" or "Transformer".
        parameterization: of MLP and CNN.
        output_scale: alpha; None trains f itself in place of alpha (f - f_0).
        expected: the known answer: "rich", the dynamics "follows" or "leaves", or "neither"; or "".
    """

    examples: str
    network: str = "MLP"
    parameterization: str = "standard"
    output_scale: float | None = None
    expected: str = ""

    @property
    def source(self) -> str:
        """The published data set; "none" of made examples."""
        return _SOURCES.get(self.examples, "none")


COLLECTION = {
    "digits_mlp": Task("digits"),
    "digits_mlp_ntk": Task("digits", parameterization="ntk"),
    "digits_mlp_mup": Task("digits", parameterization="mup"),
    "digits_small_alpha": Task("digits", output_scale=0.25, expected="leaves"),
    "digits_large_alpha": Task("digits", output_scale=256.0, expected="follows"),
    "digits_linearized": Task("digits", output_scale=float("inf"), expected="follows"),
    "digits_random_labels": Task("digits, random labels", expected="neither"),
    "noise_random_targets": Task("random targets", expected="neither"),
    "parity_small_alpha": Task("product of signs", output_scale=0.1, expected="rich"),
    "teacher_small_alpha": Task("teacher", output_scale=0.1, expected="rich"),
    "teacher_ntk": Task("teacher", parameterization="ntk"),
    "diabetes_mlp": Task("diabetes"),
    "cancer_mlp_ntk": Task("breast cancer", parameterization="ntk"),
    "wine_large_alpha": Task("wine", output_scale=256.0, expected="follows"),
    "majority_transformer": Task("majority of tokens", "Transformer"),
    "first_transformer": Task("first of tokens", "Transformer"),
    "first_large_alpha": Task(
        "first of tokens", "Transformer", output_scale=256.0, expected="follows"
    ),
    "noisy_digits_cnn": Task("digits in noise", "CNN"),
    "noisy_digits_large_alpha": Task(
        "digits in noise", "CNN", output_scale=256.0, expected="follows"
    ),
    "mnist_mlp": Task("MNIST"),
    "mnist_cnn_ntk": Task("MNIST", "CNN", "ntk"),
    "cifar10_cnn": Task("CIFAR-10", "CNN"),
    "animals_cnn_mup": Task("CIFAR-10, animals or vehicles", "CNN", "mup"),
    "photographs_resnet": Task("photographs", "ResNet"),
}

# c by output scale: task by alpha. The two ends are in the collection.
CALIBRATION = {
    0.25: "digits_small_alpha",
    **{alpha: f"digits_alpha_{alpha:g}" for alpha in (1.0, 4.0, 16.0, 64.0)},
    256.0: "digits_large_alpha",
}
TASKS = COLLECTION | {
    name: Task("digits", output_scale=alpha)
    for alpha, name in CALIBRATION.items()
    if name not in COLLECTION
}

_NAME, _SIZE = one_of(*TASKS), optional(integer(1))

FIELDS: dict[str, Field] = {
    **heading(__name__, "Lazy or rich, a collection"),
    "task": Field("digits_mlp", _NAME, "network and data"),
    "data.dataset": Field(
        "digits", one_of("none", "digits", "mnist", "cifar10", "folder"), "source of the examples"
    ),
    "data.folder": Field("plants", text(), "photographs, in a folder a class"),
    "num_images": Field(3000, integer(120), "images of MNIST, CIFAR-10 and photographs"),
    "minutes": Field(3.0, number(0, above=True), "budget of a task, which chooses its sizes"),
    "seeds": Field(None, _SIZE, "networks a split; None: as the budget allows, as below"),
    "folds": Field(None, _SIZE, "splits"),
    "examples": Field(None, optional(integer(2)), "examples that are used"),
    "epochs": Field(None, _SIZE, "passes over the training examples at most"),
    "sweep.task": Field(tuple(TASKS), tuple_of(_NAME), "tasks"),
}


def _sweep(config: Config) -> list[dict[str, Any]]:
    return [{"task": name, "data.dataset": TASKS[name].source} for name in config.sweep.task]


SETTINGS = Settings(FIELDS, _sweep)
