"""Settings: accuracy of networks and kernels against noise.

Sources of the defaults: Karp et al. (NeurIPS 2021), section 6; thesis appendix B.3.
"""

import importlib.util
import itertools

from lsa_jax.checks import Kind, boolean, integer, number, one_of, optional, text, tuple_of
from lsa_jax.experiments.lsa.noise_curves.families import is_own, name_kind
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS, is_exact
from lsa_jax.experiments.lsa.numbers import PAPER_ITEMS
from lsa_jax.reporting.courses import NAMES
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, measure_fields, product

_LEARNER, _NOISE, _SEED = one_of(*LEARNERS), number(0), integer(0)
_PLACEMENT = one_of("random_location", "random_corner", "fixed_corner")
_SIZE = Kind(
    lambda v: isinstance(v, tuple) and len(v) == 2 and all(map(integer(1).accepts, v)),
    "a pair (side of the image, side of the background)",
    tuple,
)

_GREY = ("digits", "mnist")

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Noise curves"),
    "paper_item": Field(None, optional(one_of(*PAPER_ITEMS)),
        "key of the published numbers to compare with"),
    "figure_axis": Field("noise", one_of("noise", "background_size", "num_train", "update"),
        "quantity that accuracy is drawn against"),
    # The point.
    "learner": Field("network", _LEARNER, "who learns"),
    "noise": Field(0.0, _NOISE, "Gaussian: standard deviation; images: intensity in [0, 1]"),
    "seed": Field(0, _SEED, "draws initial weights, order, placements and backgrounds"),
    "width_factor": Field(1, integer(1), "multiplies the model's channels or widths"),
    # The data.
    "data.dataset": Field("digits",
        one_of("digits", "stars", "mnist", "cifar10", "svhn", "tiny_imagenet", "folder"),
        "source of the images"),
    "data.folder": Field(None, optional(text()), "dataset folder: its name below the data folder"),
    "data.fit": Field("crop", one_of("crop", "pad", "squash"),
        "dataset folder: how pictures become square: by their centre, black margins, or squashed"),
    "data.task": Field("all", one_of("all", "cifar2", "vehicles"), "how classes are grouped"),
    "data.classes": Field((), tuple_of(integer(0)), "keep just these classes; empty keeps all"),
    "data.num_train": Field(None, optional(integer(1)), "training images; None takes all"),
    "data.num_test": Field(None, optional(integer(1)), "test images; None takes all"),
    "data.subset_seed": Field(0, integer(0), "draws the subsets"),
    "data.copies": Field(1, integer(1), "backgrounds on which each training image is placed"),
    "data.test_copies": Field(1, integer(1), "backgrounds on which each test image is placed"),
    "data.image_size": Field(8, integer(1), "side of the image, in pixels"),
    "data.background_size": Field(16, integer(1), "side of the background, in pixels"),
    "data.placement": Field("random_location", _PLACEMENT, "where the image goes"),
    "data.background": Field("gaussian", one_of("gaussian", "photographs", "distractors", "none"),
        "kind of background"),
    "data.transparent": Field(False, boolean(),
        "let the background through where images are black"),
    "data.std_power": Field(1, one_of(1, 2),
        "Gaussian: the standard deviation is noise to this power"),
    "data.shared_pool": Field(False, boolean(),
        "photographs, distractors: one pool for training and test backgrounds"),
    "data.fresh_backgrounds": Field(False, boolean(), "new backgrounds every epoch"),
    "data.image_noise": Field(0.0, number(0), "standard deviation of noise on the image itself"),
    "data.photographs": Field(None, optional(text()),
        "folder of photographs below the data folder"),
    "data.photograph_size": Field(None, optional(integer(1)),
        "side of photographs that tile a background; None: one fills it"),
    "data.synset": Field(None, optional(one_of("plants")),
        "photographs: keep the nXXXXXXXX folders of this WordNet synset; None keeps all"),
    # The network, described once for all learners.
    "model.name": Field("cnn", name_kind(),
        "family; or your own network as FILE.py:NAME, which takes no other field of config.model"),
    "model.channels": Field((8, 16), tuple_of(integer(1)),
        "cnn: channels of each convolution at width factor 1"),
    "model.window": Field(3, integer(1), "cnn: side of the convolutions' windows"),
    "model.stride": Field(2, integer(1), "cnn: step between windows"),
    "model.widths": Field((512,), tuple_of(integer(1)), "mlp: hidden widths at width factor 1"),
    "model.depth": Field(10, integer(10), "wide_resnet: 6n + 4"),
    "model.norm": Field("batch", one_of("batch", "none"), "wide_resnet: normalisation"),
    "model.pool_window": Field(None, optional(integer(1)),
        "wide_resnet: side of the windows averaged before the readout, a pixel apart; None: all"),
    "model.b_std": Field(None, optional(number(0)),
        "scale of the biases at the start; None for no biases"),
    "model.w_std": Field(2**0.5, number(0, above=True),
        "scale of the hidden weights; sqrt(2) suits ReLU"),
    "model.dtype": Field("float32", one_of("float32", "bfloat16"), "type of the computation"),
    # How each learner learns.
    **{
        f"{name}.{field}": own
        for name, learner in LEARNERS.items()
        for field, own in learner.fields.items()
    },
    "kernels": Field("ours", one_of("ours", "neural_tangents"),
        "whose kernels of pairs are solved; those of neural-tangents are compared with ours"),
    "predict": Field(False, boolean(),
        "predict each kernel's squared test error from its spectrum, by lsa_jax.kernels"),
    "kernel_memory": Field(None, optional(number(1e6)),
        "bytes that one tile of a kernel may take; None means 1e9 on CPUs, half of the free "
        "memory on an accelerator"),
    **measure_fields(NAMES),
    # How the work lies on the devices.
    "parallel": Field("replicas", one_of("replicas", "data"),
        "spread runs, or each batch, over the devices"),
    "max_replicas": Field(64, integer(1), "runs in one compiled program"),
    # The axes of the sweep.
    "sweep.learner": Field(("network", "ntk_finite", "ntk_infinite"), tuple_of(_LEARNER),
        "learners of the figure"),
    "sweep.noise": Field((0.0, 0.5, 1.0, 1.5, 2.0), tuple_of(_NOISE), "noise levels"),
    "sweep.seed": Field((0,), tuple_of(_SEED), "seeds"),
    "sweep.learned_seed": Field((), tuple_of(_SEED),
        "seeds of the kernels that learn; empty takes sweep.seed"),
    "sweep.ntk_width_factor": Field((), tuple_of(integer(1)),
        "widths of the finite NTK; empty takes width_factor"),
    "sweep.placement": Field((), tuple_of(_PLACEMENT), "placements; empty takes data.placement"),
    "sweep.num_train": Field((), tuple_of(integer(1)),
        "numbers of training images; empty takes data.num_train"),
    "sweep.size": Field((), tuple_of(_SIZE),
        "sides of image and background; empty takes data.image_size, data.background_size"),
}
# fmt: on


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns every point: learner (and width) x noise x seed (x swept fields of the data).

    The infinite-width kernel is the same for every seed but for the data, so it has its seeds too:
    learners are compared on the same placements and backgrounds. Kernels that learn, which cost the
    most, may have seeds of their own.
    """
    axes, points = config.sweep, []
    for learner in axes.learner:
        widths = axes.ntk_width_factor if learner == "ntk_finite" else ()
        seeds = axes.learned_seed if LEARNERS[learner].is_learned_kernel else ()
        own = {"learner": (learner,), "width_factor": widths or (config.width_factor,)}
        points += product(own | {"noise": axes.noise, "seed": seeds or axes.seed})
    # Fields of the data that are not swept have one {}.
    sizes = [{"data.image_size": a, "data.background_size": b} for a, b in axes.size] or [{}]
    places = [{"data.placement": placement} for placement in axes.placement] or [{}]
    counts = [{"data.num_train": count} for count in axes.num_train] or [{}]
    of_data = itertools.product(counts, sizes, places)
    return [{**p, **place, **size, **count} for count, size, place in of_data for p in points]


def _distracts(config: Config) -> bool:
    return config.data.background == "distractors"


def _shows_photographs(config: Config) -> bool:
    return config.data.background == "photographs"


def _tiles(config: Config) -> bool:
    """Whether photographs of their size tile a background."""
    return _shows_photographs(config) and (
        config.data.background_size % config.data.photograph_size == 0
    )


def is_normalised(config: Config) -> bool:
    """Whether the network normalises over the batch, so that examples act on one another."""
    return config.model.name == "wide_resnet" and config.model.norm == "batch"


def _solves(config: Config) -> bool:
    return is_exact(config) or LEARNERS[config.learner].follows is not None


# Rules: the field that is refused, the condition, the accepted values.
# fmt: off
DATA_RULES = (
    Rule("data.image_size", lambda c: c.data.image_size <= c.data.background_size,
         "at most config.data.background_size, which is {c.data.background_size}"),
    Rule("data.background_size",
         lambda c: not _distracts(c) or c.data.background_size == 2 * c.data.image_size,
         "twice config.data.image_size, as distractors fill a grid of 2 x 2 images"),
    Rule("data.placement", lambda c: not _distracts(c) or c.data.placement != "random_location",
         "'random_corner', 'fixed_corner', as distractors fill the other corners"),
    Rule("data.task", lambda c: not _distracts(c) or c.data.task == "vehicles",
         "'vehicles', as distractors are drawn from the classes left out"),
    Rule("data.task", lambda c: c.data.task == "all" or c.data.dataset == "cifar10",
         "'all' on {c.data.dataset}"),
    Rule("data.photographs", lambda c: not _shows_photographs(c) or c.data.photographs is not None,
         "a folder below the data folder"),
    Rule("data.photograph_size", lambda c: c.data.photograph_size is None or _tiles(c),
         "None, or on photographs a divisor of the side {c.data.background_size}"),
    Rule("data.dataset", lambda c: not _shows_photographs(c) or c.data.dataset not in _GREY,
         "a data set in colours, as photographs have colours, or another background"),
    Rule("data.synset", lambda c: c.data.synset is None or _shows_photographs(c),
         "None on background {c.data.background!r}"),
    Rule("data.folder", lambda c: (c.data.dataset == "folder") == (c.data.folder is not None),
         "a folder below the data folder with config.data.dataset = 'folder', else None"),
    Rule("data.fit", lambda c: c.data.dataset == "folder" or c.data.fit == "crop",
         "'crop' with data set {c.data.dataset!r}, whose images are square"),
    Rule("data.copies", lambda c: not c.data.fresh_backgrounds or c.data.copies == 1,
         "1, as backgrounds are fresh every epoch"),
    Rule("noise", lambda c: not (_shows_photographs(c) or _distracts(c)) or c.noise <= 1,
         "0 to 1, an intensity"),
    Rule("noise", lambda c: c.data.background != "none" or c.noise == 0, "0 without a background"),
)

NETWORK_RULES = (
    Rule("model.depth", lambda c: (c.model.depth - 4) % 6 == 0, "6n + 4, such as 10, 16, 22, 28"),
    Rule("measures", lambda c: not (c.measures and is_normalised(c)),
         "(), or config.model.norm = 'none': batch normalisation couples the examples of a batch, "
         "which are measured by themselves"),
    Rule("model.pool_window",
         lambda c: c.model.name != "wide_resnet"
         or (c.model.pool_window or 0) <= -(-c.data.background_size // 4),
         "None, or at most the side after a wide ResNet's groups, a quarter of the background's"),
    Rule("model.channels", lambda c: c.model.channels, "a number for each convolution"),
    Rule("network.parameterization",
         lambda c: not is_own(c.model.name) or c.network.parameterization == "standard",
         "'standard' with config.model.name = {c.model.name!r}, whose weights are its own"),
    *DATA_RULES,
    # Not of image examples, whose points have backgrounds with and without photographs.
    Rule("data.photographs", lambda c: c.data.photographs is None or _shows_photographs(c),
         "None on background {c.data.background!r}"),
)

_FIGURE_RULES = (
    Rule("sweep.noise", lambda c: c.figure_axis == "noise" or len(set(c.sweep.noise)) == 1,
         "one noise level, as accuracy is drawn against {c.figure_axis}"),
    Rule("sweep.num_train", lambda c: (c.figure_axis == "num_train") == bool(c.sweep.num_train),
         "one number or more where accuracy is drawn against num_train, else (); it is drawn "
         "against {c.figure_axis}"),
    *(Rule(f"sweep.{name}",
           lambda c, n=name: c.figure_axis in ("noise", "background_size") or len(c.sweep[n]) <= 1,
           "one, or (), as accuracy is drawn against {c.figure_axis}")
      for name in ("placement", "size", "ntk_width_factor")),
    Rule("rfm.every_update", lambda c: c.figure_axis != "update" or c.rfm.every_update,
         "True, as each update is drawn"),
)


def _rules_of_training(name: str) -> tuple[Rule, ...]:
    """Returns the rules on a learner's training, where the point's learner needs it."""

    def other(config: Config) -> bool:
        return is_exact(config) or name not in (config.learner, LEARNERS[config.learner].follows)

    def is_mup(settings: Config) -> bool:
        return settings.parameterization == "mup" and settings.optimizer == "adam"

    return (
        Rule(f"{name}.decay_epochs",
             lambda c: other(c) or c[name].schedule != "steps" or c[name].decay_epochs,
             "at least one epoch, at which the rate of the steps schedule falls"),
        Rule(f"{name}.weight_decay",
             lambda c: other(c) or not is_mup(c[name]) or c[name].weight_decay == 0,
             "0, or optimizer = 'adamw': muP's rates leave no penalty's gradient to adam"),
    )


_LEARNER_RULES = (
    Rule("learner", lambda c: c.learner not in ("ntk_infinite", "rfm") or not is_normalised(c),
         "a learner without a kernel of infinite width, or config.model.norm = 'none': batch "
         "normalisation has none here"),
    Rule("data.fresh_backgrounds", lambda c: not _solves(c) or not c.data.fresh_backgrounds,
         "False, with data.copies: kernel regression needs a fixed training set"),
    Rule("kernels",
         lambda c: c.kernels == "ours" or importlib.util.find_spec("neural_tangents") is not None,
         "'ours', or after pip install 'lsa_jax[neural-tangents]' 'neural_tangents'"),
    Rule("kernels",
         lambda c: c.kernels == "ours" or not _solves(c) or c[c.learner].solver != "nystrom",
         "'ours' with the solver 'nystrom'"),
    Rule("predict", lambda c: not c.predict or not _solves(c) or c[c.learner].solver == "cholesky",
         "False, or config.{c.learner}.solver = 'cholesky', which has the whole matrix in memory"),
    Rule("{c.learner}.ridge", lambda c: not _solves(c) or c[c.learner].ridge,
         "at least one number"),
    Rule("{c.learner}.ridge",
         lambda c: not _solves(c) or len(c[c.learner].ridge) == 1
         or c[c.learner].solver not in ("conjugate_gradients", "nystrom"),
         "one number, or the solver 'cholesky': choosing among several factorises"),
    Rule("{c.learner}.solver",
         lambda c: LEARNERS[c.learner].learn is None or c[c.learner].solver != "nystrom",
         "'cholesky', 'conjugate_gradients', as the kernel learns from all images at once"),
    *(rule for name, learner in LEARNERS.items() if learner.trained
      for rule in _rules_of_training(name)),
)
# fmt: on

TRAINING_RULES = NETWORK_RULES + _rules_of_training("network")
SETTINGS = Settings(FIELDS, sweep, _FIGURE_RULES + NETWORK_RULES + _LEARNER_RULES)
