"""Settings: accuracy of networks and kernels against noise.

Sources of the defaults: Karp et al. (NeurIPS 2021), section 6; thesis appendix B.3.
"""

import ml_collections

from lsa_jax.checks import Kind, boolean, integer, number, one_of, optional, text, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves.families import FAMILIES
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS, is_exact
from lsa_jax.experiments.lsa.numbers import PAPER_ITEMS
from lsa_jax.sweep.fields import Field, Settings, experiment_field, measure_fields

_LEARNER, _NOISE, _SEED = one_of(*LEARNERS), number(0), integer(0)
_PLACEMENT = one_of("random_location", "random_corner", "fixed_corner")
_SIZE = Kind(
    lambda v: isinstance(v, tuple) and len(v) == 2 and all(map(integer(1).accepts, v)),
    "a pair (side of the image, side of the background)",
    tuple,
)

_GREY = ("digits", "mnist")

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("Noise curves", text(), "heading of the report"),
    "paper_item": Field(
        None,
        optional(one_of(*PAPER_ITEMS)),
        "key of the published numbers to put beside ours",
    ),
    "figure_axis": Field(
        "noise",
        one_of("noise", "background_size", "num_train", "update"),
        "what accuracy is drawn against",
    ),
    # What one point is.
    "learner": Field("network", _LEARNER, "who learns"),
    "noise": Field(0.0, _NOISE, "Gaussian: standard deviation; images: intensity in [0, 1]"),
    "seed": Field(0, _SEED, "draws initial weights, order, placements and backgrounds"),
    "width_factor": Field(1, integer(1), "multiplies the model's channels or widths"),
    # What is learned from.
    "data.dataset": Field(
        "digits",
        one_of("digits", "stars", "mnist", "cifar10", "svhn", "tiny_imagenet", "folder"),
        "source of the images",
    ),
    "data.folder": Field(None, optional(text()), "dataset folder: its name below the data folder"),
    "data.fit": Field(
        "crop",
        one_of("crop", "pad", "squash"),
        "dataset folder: how pictures become square: by their centre, black margins, or squashed",
    ),
    "data.task": Field("all", one_of("all", "cifar2", "vehicles"), "how classes are grouped"),
    "data.classes": Field((), tuple_of(integer(0)), "keep just these classes; empty keeps all"),
    "data.num_train": Field(None, optional(integer(1)), "training images; None takes all"),
    "data.num_test": Field(None, optional(integer(1)), "test images; None takes all"),
    "data.subset_seed": Field(0, integer(0), "draws the subsets"),
    "data.copies": Field(1, integer(1), "backgrounds on which each training image is placed"),
    "data.test_copies": Field(1, integer(1), "backgrounds on which each test image is placed"),
    "data.image_size": Field(8, integer(1), "side of the image, in pixels"),
    "data.background_size": Field(16, integer(1), "side of the background, in pixels"),
    "data.placement": Field(
        "random_location",
        _PLACEMENT,
        "where the image goes",
    ),
    "data.background": Field(
        "gaussian", one_of("gaussian", "photographs", "distractors", "none"), "what lies behind"
    ),
    "data.transparent": Field(
        False, boolean(), "let the background through where images are black"
    ),
    "data.std_power": Field(
        1, one_of(1, 2), "Gaussian: the standard deviation is noise to this power"
    ),
    "data.shared_pool": Field(
        False, boolean(), "photographs, distractors: one pool for training and test backgrounds"
    ),
    "data.fresh_backgrounds": Field(False, boolean(), "new backgrounds every epoch"),
    "data.image_noise": Field(0.0, number(0), "standard deviation of noise on the image itself"),
    "data.photographs": Field(
        None, optional(text()), "folder of photographs below the data folder"
    ),
    "data.photograph_size": Field(
        None,
        optional(integer(1)),
        "side of photographs of which several tile a background; None: one fills it",
    ),
    "data.synset": Field(
        None,
        optional(one_of("plants")),
        "photographs: keep the nXXXXXXXX folders of this WordNet synset; None keeps all",
    ),
    # The network, described once for all learners.
    "model.name": Field("cnn", one_of(*FAMILIES), "family"),
    "model.channels": Field(
        (8, 16), tuple_of(integer(1)), "cnn: channels of each convolution at width factor 1"
    ),
    "model.window": Field(3, integer(1), "cnn: side of the convolutions' windows"),
    "model.stride": Field(2, integer(1), "cnn: step between windows"),
    "model.widths": Field((512,), tuple_of(integer(1)), "mlp: hidden widths at width factor 1"),
    "model.depth": Field(10, integer(10), "wide_resnet: 6n + 4"),
    "model.norm": Field("batch", one_of("batch", "none"), "wide_resnet: normalisation"),
    "model.pool_window": Field(
        None,
        optional(integer(1)),
        "wide_resnet: side of the windows averaged before the readout, a pixel apart; None: all",
    ),
    "model.b_std": Field(
        None, optional(number(0)), "scale of the biases at the start; None for no biases"
    ),
    "model.w_std": Field(
        2**0.5, number(0, above=True), "scale of the hidden weights; sqrt(2) suits ReLU"
    ),
    "model.dtype": Field("float32", one_of("float32", "bfloat16"), "type of the computation"),
    # How each learner learns.
    **{
        f"{name}.{field}": own
        for name, learner in LEARNERS.items()
        for field, own in learner.fields.items()
    },
    "kernel_memory": Field(
        None,
        optional(number(1e6)),
        "bytes that one tile of a kernel may take; None means 1e9 on CPUs, half of what is free on "
        "an accelerator",
    ),
    **measure_fields(),
    # How the work lies on the devices.
    "parallel": Field(
        "replicas", one_of("replicas", "data"), "spread runs, or each batch, over the devices"
    ),
    "max_replicas": Field(64, integer(1), "runs in one compiled program"),
    # The axes of the sweep.
    "sweep.learner": Field(
        ("network", "ntk_finite", "ntk_infinite"), tuple_of(_LEARNER), "learners of the figure"
    ),
    "sweep.noise": Field((0.0, 0.5, 1.0, 1.5, 2.0), tuple_of(_NOISE), "noise levels"),
    "sweep.seed": Field((0,), tuple_of(_SEED), "seeds"),
    "sweep.learned_seed": Field(
        (), tuple_of(_SEED), "seeds of the kernels that learn; empty takes sweep.seed"
    ),
    "sweep.ntk_width_factor": Field(
        (), tuple_of(integer(1)), "widths of the finite NTK; empty takes width_factor"
    ),
    "sweep.placement": Field((), tuple_of(_PLACEMENT), "placements; empty takes data.placement"),
    "sweep.num_train": Field(
        (), tuple_of(integer(1)), "numbers of training images; empty takes data.num_train"
    ),
    "sweep.size": Field(
        (),
        tuple_of(_SIZE),
        "sides of image and background; empty takes data.image_size, data.background_size",
    ),
}


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns every point: learner (and width) x noise x seed (x what else is swept of the data).

    The infinite-width kernel is the same for every seed but for the data, so it has its seeds too:
    learners are compared on the same placements and backgrounds. Kernels that learn, which cost the
    most, may have seeds of their own.
    """
    axes = config.sweep
    learners: list[dict[str, object]] = []
    for learner in axes.learner:
        widths = axes.ntk_width_factor if learner == "ntk_finite" else ()
        learners += [
            {"learner": learner, "width_factor": width}
            for width in widths or (config.width_factor,)
        ]
    points = [
        {**learner, "noise": noise, "seed": seed}
        for learner in learners
        for noise in axes.noise
        for seed in _seeds(axes, learner["learner"])
    ]
    return [{**point, **arrangement} for arrangement in _arrangements(axes) for point in points]


def _seeds(axes: ml_collections.ConfigDict, learner: object) -> tuple[int, ...]:
    learned = LEARNERS[str(learner)].is_learned_kernel
    return (learned and axes.learned_seed) or axes.seed


def _arrangements(axes: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns the swept placements, sizes and numbers of images; one {} where none is swept."""
    sizes = [{"data.image_size": a, "data.background_size": b} for a, b in axes.size] or [{}]
    places = [{"data.placement": placement} for placement in axes.placement] or [{}]
    counts = [{"data.num_train": count} for count in axes.num_train] or [{}]
    return [{**place, **size, **count} for count in counts for size in sizes for place in places]


def _refuse(config: ml_collections.ConfigDict, name: str, why: str) -> InputError:
    value = config
    for part in name.split("."):
        value = value[part]
    return InputError(f"config.{name} is {value!r}; {why}")


def check_data(config: ml_collections.ConfigDict) -> None:
    """Raises unless the fields of data and the noise fit together.

    Raises:
        InputError: one line that names the field, the value and what is accepted.
    """
    data = config.data
    if data.image_size > data.background_size:
        raise _refuse(
            config,
            "data.image_size",
            f"accepted: at most config.data.background_size, which is {data.background_size}",
        )
    if data.background == "distractors":
        if data.background_size != 2 * data.image_size:
            raise _refuse(
                config,
                "data.background_size",
                f"distractors fill a grid of 2 x 2 images; accepted: {2 * data.image_size}",
            )
        if data.placement == "random_location":
            why = "distractors fill the other corners; accepted: 'random_corner', 'fixed_corner'"
            raise _refuse(config, "data.placement", why)
        if data.task != "vehicles":
            why = "distractors are drawn from the classes left out; accepted: 'vehicles'"
            raise _refuse(config, "data.task", why)
    if data.task != "all" and data.dataset != "cifar10":
        raise _refuse(config, "data.task", f"on {data.dataset}; accepted: 'all'")
    if data.background == "photographs" and data.photographs is None:
        raise _refuse(config, "data.photographs", "accepted: a folder below the data folder")
    tile = data.photograph_size
    if tile is not None and (data.background != "photographs" or data.background_size % tile):
        why = f"on {data.background!r} of side {data.background_size}; accepted: None"
        if data.background == "photographs":
            why += ", or a divisor of the side"
        raise _refuse(config, "data.photograph_size", why)
    if data.background == "photographs" and data.dataset in _GREY:
        why = "photographs have colours; accepted: a data set in colours, or another background"
        raise _refuse(config, "data.dataset", why)
    if data.synset is not None and data.background != "photographs":
        why = f"on background {data.background!r}; accepted: None"
        raise _refuse(config, "data.synset", why)
    if data.dataset == "folder" and data.folder is None:
        raise _refuse(config, "data.folder", "accepted: a folder below the data folder")
    if data.dataset != "folder" and data.folder is not None:
        why = f"with data set {data.dataset!r}; accepted: None, or config.data.dataset = 'folder'"
        raise _refuse(config, "data.folder", why)
    if data.dataset != "folder" and data.fit != "crop":
        why = f"with data set {data.dataset!r}, whose images are square; accepted: 'crop'"
        raise _refuse(config, "data.fit", why)
    if data.fresh_backgrounds and data.copies > 1:
        raise _refuse(config, "data.copies", "backgrounds are fresh every epoch; accepted: 1")
    if data.background in ("photographs", "distractors") and config.noise > 1:
        raise _refuse(config, "noise", "an intensity; accepted: 0 to 1")
    if data.background == "none" and config.noise > 0:
        raise _refuse(config, "noise", "without a background; accepted: 0")


def _check_learner(config: ml_collections.ConfigDict) -> None:
    follows = LEARNERS[config.learner].follows
    exact = is_exact(config) or follows is not None
    if exact and config.model.name == "wide_resnet" and config.model.norm == "batch":
        why = "batch normalisation couples the examples of a batch, so there is no kernel of pairs"
        raise _refuse(config, "learner", f"{why}; accepted: config.model.norm = 'none'")
    if exact and config.data.fresh_backgrounds:
        why = "kernel regression needs a fixed training set"
        raise _refuse(config, "data.fresh_backgrounds", f"{why}; accepted: False, with data.copies")
    if exact and not config[config.learner].ridge:
        raise _refuse(config, f"{config.learner}.ridge", "accepted: at least one number")
    solver = config[config.learner].solver if exact else "cholesky"
    one_ridge = solver in ("cholesky_on_disk", "conjugate_gradients", "nystrom")
    if one_ridge and len(config[config.learner].ridge) > 1:
        why = f"{solver} takes one ridge, as choosing among several factorises"
        raise _refuse(config, f"{config.learner}.ridge", f"{why}; accepted: one number")
    if solver == "nystrom" and LEARNERS[config.learner].learn is not None:
        why = "the kernel learns from all images at once"
        accepted = "'cholesky', 'cholesky_on_disk', 'conjugate_gradients'"
        raise _refuse(config, f"{config.learner}.solver", f"{why}; accepted: {accepted}")
    trained = follows or config.learner
    if is_exact(config):
        return
    own = config[trained]
    if own.schedule == "steps" and not own.decay_epochs:
        why = "the steps schedule needs epochs at which the rate falls; accepted: at least one"
        raise _refuse(config, f"{trained}.decay_epochs", why)
    if own.parameterization == "mup" and own.optimizer == "adam" and own.weight_decay:
        why = "muP's rates leave no penalty's gradient to adam; accepted: 0, or optimizer = 'adamw'"
        raise _refuse(config, f"{trained}.weight_decay", why)


def _check(config: ml_collections.ConfigDict) -> None:
    """Raises unless the fields fit together."""
    if config.figure_axis != "noise" and len(set(config.sweep.noise)) > 1:
        why = f"accuracy is drawn against {config.figure_axis}; accepted: one noise level"
        raise _refuse(config, "sweep.noise", why)
    if (config.figure_axis == "num_train") != bool(config.sweep.num_train):
        why = f"accuracy is drawn against {config.figure_axis}"
        accepted = "one number or more" if config.figure_axis == "num_train" else "()"
        raise _refuse(config, "sweep.num_train", f"{why}; accepted: {accepted}")
    if config.figure_axis in ("num_train", "update"):
        for name in ("placement", "size", "ntk_width_factor"):
            if len(config.sweep[name]) > 1:
                why = f"accuracy is drawn against {config.figure_axis}; accepted: one, or ()"
                raise _refuse(config, f"sweep.{name}", why)
    if config.figure_axis == "update" and not config.rfm.every_update:
        raise _refuse(config, "rfm.every_update", "each update is drawn; accepted: True")
    check_network(config)


def check_network(config: ml_collections.ConfigDict) -> None:
    """Raises unless the fields of data, model and learner fit together.

    Raises:
        InputError: one line that names the field, the value and what is accepted.
    """
    if (config.model.depth - 4) % 6:
        raise _refuse(config, "model.depth", "accepted: 6n + 4, such as 10, 16, 22, 28")
    if config.measures and config.model.name == "wide_resnet" and config.model.norm == "batch":
        why = (
            "batch normalisation couples the examples of a batch, which are measured by themselves"
        )
        raise _refuse(config, "measures", f"{why}; accepted: (), or config.model.norm = 'none'")
    # Two of a wide ResNet's groups halve the sides, rounded up.
    least, window = -(-config.data.background_size // 4), config.model.pool_window
    if config.model.name == "wide_resnet" and window is not None and window > least:
        why = f"after a wide ResNet's groups a side is {least} pixels; accepted: None, or at most"
        raise _refuse(config, "model.pool_window", f"{why} {least}")
    if not config.model.channels:
        raise _refuse(config, "model.channels", "accepted: a number for each convolution")
    check_data(config)
    if config.data.photographs is not None and config.data.background != "photographs":
        # Not of image examples, whose points have backgrounds with and without photographs.
        why = f"on background {config.data.background!r}; accepted: None"
        raise _refuse(config, "data.photographs", why)
    _check_learner(config)


SETTINGS = Settings(FIELDS, sweep, check=_check)
default_config, validate = SETTINGS.default_config, SETTINGS.validate
