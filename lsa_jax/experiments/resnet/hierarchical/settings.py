"""Settings: what a ResNet learns of a two-stage target.

Sources of the defaults: Allen-Zhu and Li (2019), section 8.1.
"""

import ml_collections

from lsa_jax.checks import integer, number, one_of, optional, text, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.sweep.fields import Field, Settings, experiment_field, measure_fields
from lsa_jax.sweep.variants import choose, set_fields

NETS = ("2layer", "3layer", "3layer_bottleneck", "3resnet", "3resnet_full")

# Trained by SGD, each with a search of its own: every layer, all but the last, the last alone
# (conjugate kernel), every layer of the linearised network (NTK).
NETWORK_LEARNERS = ("all", "hidden")
KERNEL_LEARNERS = ("last", "ntk")
# The same two kernels, solved; infinite widths; kernels of inputs alone.
FINITE_LEARNERS = ("last_exact", "ntk_exact")
INFINITE_LEARNERS = ("ntk_infinite", "conjugate_infinite")
INPUT_LEARNERS = ("gaussian", "arc_cosine")
SEARCHED = NETWORK_LEARNERS + KERNEL_LEARNERS
LEARNERS = SEARCHED + FINITE_LEARNERS + INFINITE_LEARNERS + INPUT_LEARNERS

# The nets whose kernel is not None at infinite width.
NETS_WITH_LIMIT = ("2layer", "3layer", "3resnet", "3resnet_full")

# A full kernel of more numbers on a side than this is refused.
MAX_SIDE = 20_000

TASK = ["d", "base_degree", "composite_degree", "outputs"]
_SEED, _WIDTH, _RATE, _DECAY = integer(0), integer(1), number(0, above=True), number(0)
_SIZE, _ALPHA, _BETA = integer(1), number(0, above=True), number(0)

FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("Hierarchical targets", text(), "heading of the report"),
    "question": Field(
        "width",
        one_of("width", "beta", "alpha", "nets", "samples", "epochs"),
        "the axis of the figure, and so the paper's claims: figure 2; figure 3; theorem 1; which "
        "part of the net does it; theorem 2; what is learned when",
    ),
    "seed": Field(0, _SEED, "draws examples, initial parameters and their order"),
    # The target.
    "target": Field("parity", one_of("parity", "smooth"), "products of inputs, or polynomials"),
    "d": Field(30, integer(2), "inputs"),
    "base_degree": Field(2, integer(1), "of F"),
    "outputs": Field(None, optional(integer(1)), "k, of F; None takes d / base_degree"),
    "composite_degree": Field(4, integer(1), "of G in F's outputs"),
    "alpha": Field(0.3, _ALPHA, "weight of G(F)"),
    "beta": Field(1.0, _BETA, "weight of F"),
    "num_train": Field(500, _SIZE, "N"),
    "num_test": Field(2000, _SIZE, "fresh examples that settings are chosen by and reported on"),
    # The network and what of it is trained.
    "net": Field("3resnet", one_of(*NETS, "none"), "see models.shallow; none for input kernels"),
    "learner": Field("all", one_of(*LEARNERS), "see settings.hierarchical"),
    "width": Field(200, _WIDTH, "m"),
    "init": Field(
        "mixed", one_of("width", "fan_in", "fans", "mixed"), "size of entries; see models.shallow"
    ),
    # SGD and its search.
    "batch_size": Field(50, _SIZE, "examples a step"),
    "epochs": Field(800, integer(2), "passes over the training examples"),
    "momentum": Field(0.9, number(0, 0.999), "of SGD"),
    "fall_epoch": Field(400, integer(1), "epochs after which the rate is divided by 10"),
    "eval_every": Field(50, _SIZE, "epochs between evaluations"),
    "search.learning_rates": Field((0.1,), tuple_of(_RATE), "rates of all and hidden"),
    "search.weight_decays": Field((0.005,), tuple_of(_DECAY), "decays of all and hidden"),
    "search.kernel_learning_rates": Field((0.02,), tuple_of(_RATE), "rates of last and ntk"),
    "search.kernel_weight_decays": Field((0.005,), tuple_of(_DECAY), "decays of last and ntk"),
    "search.rung_epochs": Field((), tuple_of(_SIZE), "when candidates are dropped"),
    "search.rung_keep": Field((), tuple_of(_SIZE), "how many go on from each, all and hidden"),
    "search.kernel_rung_keep": Field((), tuple_of(_SIZE), "how many go on, last and ntk"),
    "search.hopeless": Field(
        3.0, number(1.0), "rungs drop candidates above this multiple of the targets' mean square"
    ),
    # Exact kernels.
    "ridges": Field(
        (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0), tuple_of(_RATE), "over the kernel's mean diagonal"
    ),
    "bandwidths": Field(
        (0.5, 1.0, 2.0), tuple_of(_RATE), "of the Gaussian kernel, over the inputs' length"
    ),
    "num_exact_test": Field(500, _SIZE, "test examples of ntk_exact, whose kernel is large"),
    # Question "epochs": the winner of the search is trained again and looked at in between.
    "watch_every": Field(4, _SIZE, "epochs between two looks"),
    "num_probe": Field(4000, _SIZE, "fresh examples that read-outs are fitted on"),
    **measure_fields(),
    # The axes of the sweep. A series is a net and a learner.
    "sweep.series": Field((("3resnet", "all"),), tuple_of(tuple_of(text())), "series against m"),
    "sweep.seed": Field((0, 1, 2), tuple_of(_SEED), "seeds of them"),
    "sweep.baselines": Field((), tuple_of(tuple_of(text())), "more series against m"),
    "sweep.baseline_seed": Field((0,), tuple_of(_SEED), "seeds of these"),
    "sweep.width": Field((200,), tuple_of(_WIDTH), "m"),
    "sweep.exact": Field((), tuple_of(tuple_of(text())), "series of exactly solved finite kernels"),
    "sweep.exact_width": Field((), tuple_of(_WIDTH), "m of these"),
    "sweep.limits": Field((), tuple_of(tuple_of(text())), "series that have no width"),
    "sweep.beta": Field((), tuple_of(_BETA), "beta; empty for the value above"),
    "sweep.alpha": Field((), tuple_of(_ALPHA), "alpha; likewise"),
    "sweep.num_train": Field((), tuple_of(_SIZE), "N of the series and baselines; likewise"),
    "sweep.exact_num_train": Field((), tuple_of(_SIZE), "N of the exact; empty for these"),
    "sweep.limit_num_train": Field((), tuple_of(_SIZE), "N of the limits; likewise"),
    "sweep.tasks": Field(
        (), tuple_of(tuple_of(_SIZE)), "(d, base_degree, composite_degree[, outputs]); likewise"
    ),
}


def num_outputs(config: ml_collections.ConfigDict) -> int:
    """Returns k."""
    return config.outputs or config.d // config.base_degree


def _series(pairs: tuple[tuple[str, ...], ...], field: str) -> list[dict[str, object]]:
    for pair in pairs:
        if len(pair) != 2:
            raise InputError(f"config.sweep.{field} has {pair!r}; accepted: (net, learner)")
    return [{"net": net, "learner": learner} for net, learner in pairs]


def _times(
    settings: list[dict[str, object]], axis: str, values: tuple[object, ...]
) -> list[dict[str, object]]:
    """Returns every combination; settings as they are where there are no values."""
    if not values:
        return settings
    return [s | {axis: value} for s in settings for value in values]


def solved_sizes(config: ml_collections.ConfigDict) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the N that the exactly solved kernels are swept over, and that the limits are."""
    axes = config.sweep
    return axes.exact_num_train or axes.num_train, axes.limit_num_train or axes.num_train


def sweep(config: ml_collections.ConfigDict) -> list[dict[str, object]]:
    """Returns the swept settings of every point.

    Series x widths x seeds, baselines x widths x their seeds, exact kernels x theirs, limits; each
    with every task, beta, alpha and N.

    Raises:
        InputError: a series or a task has not as many members as it should.
    """
    axes = config.sweep
    exact_sizes, limit_sizes = solved_sizes(config)
    parts = (
        (_series(axes.series, "series"), axes.width, axes.seed, axes.num_train),
        (_series(axes.baselines, "baselines"), axes.width, axes.baseline_seed, axes.num_train),
        (_series(axes.exact, "exact"), axes.exact_width, axes.baseline_seed, exact_sizes),
        (_series(axes.limits, "limits"), (), axes.baseline_seed, limit_sizes),
    )
    tasks = []
    for task in axes.tasks:
        if len(task) not in (3, 4):
            raise InputError(
                f"config.sweep.tasks has {task!r}; accepted: (d, base_degree, composite_degree) or "
                "(d, base_degree, composite_degree, outputs)"
            )
        tasks.append(dict(zip(TASK, task, strict=False)))
    points = []
    for task in tasks or [{}]:
        for settings, widths, seeds, sizes in parts:
            settings = _times([task | s for s in settings], "beta", axes.beta)
            settings = _times(settings, "alpha", axes.alpha)
            settings = _times(_times(settings, "num_train", sizes), "width", widths)
            points += _times(settings, "seed", seeds)
    return points


def _check(config: ml_collections.ConfigDict) -> None:
    """Raises unless the fields fit together."""
    most, outputs = config.d // config.base_degree, num_outputs(config)
    if outputs > most:
        raise InputError(f"config.outputs is {outputs}; accepted: at most {most}, d / base_degree")
    if not outputs or config.composite_degree > outputs and config.target == "parity":
        raise InputError(
            f"config.composite_degree is {config.composite_degree}; accepted: at most the "
            f"{outputs} outputs of a base signal of degree {config.base_degree} on d = {config.d}"
        )
    _check_learner(config, outputs)
    search, epochs = config.search, config.search.rung_epochs
    for name in ("rung_keep", "kernel_rung_keep"):
        if len(search[name]) != len(epochs):
            raise InputError(
                f"config.search.{name} is {search[name]}; accepted: as many numbers as "
                f"config.search.rung_epochs has, {len(epochs)}"
            )
    if list(epochs) != sorted(set(epochs)) or (epochs and epochs[-1] >= config.epochs):
        raise InputError(
            f"config.search.rung_epochs is {epochs}; accepted: increasing, below "
            f"config.epochs = {config.epochs}"
        )
    for name in ("learning_rates", "weight_decays"):
        for field in (name, f"kernel_{name}"):
            if not search[field]:
                raise InputError(f"config.search.{field} is (); accepted: one value or more")
    for name in ("ridges", "bandwidths"):
        if not config[name]:
            raise InputError(f"config.{name} is (); accepted: one value or more")


def _check_learner(config: ml_collections.ConfigDict, outputs: int) -> None:
    """Raises where net and learner do not go together."""
    learner, net = config.learner, config.net
    if (learner in INPUT_LEARNERS) != (net == "none"):
        raise InputError(
            f"config.net is {net!r} while config.learner is {learner!r}; accepted: 'none' with "
            f"{', '.join(INPUT_LEARNERS)}, a network with all others"
        )
    if learner in INFINITE_LEARNERS and (net not in NETS_WITH_LIMIT or config.init == "fan_in"):
        raise InputError(
            f"config.net is {net!r} and config.init {config.init!r} while config.learner is "
            f"{learner!r}; accepted: one of {', '.join(NETS_WITH_LIMIT)} with init not 'fan_in'"
        )
    if learner == "ntk_exact" and config.num_train * outputs > MAX_SIDE:
        raise InputError(
            f"config.num_train is {config.num_train} while config.learner is 'ntk_exact'; "
            f"accepted: at most {MAX_SIDE // outputs}, for {MAX_SIDE} rows with {outputs} outputs"
        )
    if config.question == "epochs" and learner not in SEARCHED:
        raise InputError(
            f"config.learner is {learner!r} while config.question is 'epochs'; accepted: one of "
            f"{', '.join(SEARCHED)}"
        )
    if config.question == "epochs" and config.beta == 0:
        raise InputError("config.beta is 0.0 while config.question is 'epochs'; accepted: above 0")


# When a full search drops candidates. Without dropping any, those that were best after 800 epochs
# had been as low as 17th of 30 after 50 epochs, 6th after 100 and after 400, when the rate falls,
# and 2nd soon after that.
RUNGS = {
    "search.rung_epochs": (50, 100, 200, 400, 500),
    "search.rung_keep": (20, 16, 9, 7, 3),
    "search.kernel_rung_keep": (8, 4, 2, 1, 1),
}

# When a search of six candidates does. In figure 2 (a) the one of them that was best after 800
# epochs had been as low as 5th after 100 epochs and 4th after 200, and 1st after 500.
SMALL_RUNGS = {
    "search.rung_epochs": (200, 500),
    "search.rung_keep": (4, 2),
    "search.kernel_rung_keep": (2, 1),
}

# What a run on nearly nothing has in common, for tests.
QUICK = {
    "d": 8,
    "num_train": 40,
    "num_test": 30,
    "batch_size": 20,
    "epochs": 2,
    "fall_epoch": 1,
    "eval_every": 2,
    "search.learning_rates": (0.05,),
    "search.weight_decays": (0.001,),
    "search.rung_epochs": (),
    "search.rung_keep": (),
    "search.kernel_rung_keep": (),
    "sweep.seed": (0,),
    "sweep.width": (10,),
}


def figure3(
    variant: str,
    *,
    panel: str,
    trained: str,
    num_train: tuple[int, ...],
    weight_decays: tuple[float, ...],
    learning_rates: tuple[float, ...],
    small_rates: tuple[float, ...],
) -> ml_collections.ConfigDict:
    """Returns one panel: the ResNet's error on beta F + alpha G(F) against beta.

    Args:
        variant: "full", "small" (one width) or "quick" (tests).
        panel: "a" or "b".
        trained: which layers: "all" or "hidden".
        num_train: N, one or more.
        weight_decays: that are searched.
        learning_rates: likewise.
        small_rates: learning rates that the small variant searches.

    Raises:
        InputError: there is no such variant.
    """
    title = f"Test error on beta F + alpha G(F), {trained} layers trained (figure 3 {panel})"
    config = set_fields(
        default_config(),
        RUNGS
        | {
            "title": title,
            "question": "beta",
            "sweep.num_train": num_train,
            "search.learning_rates": learning_rates,
            "search.weight_decays": weight_decays,
            "sweep.series": (("3resnet", trained),),
            "sweep.seed": (0, 1, 2),
            "sweep.beta": (1.0, 0.5, 0.3, 0.2, 0.0),
            "sweep.width": (20, 50, 100, 200, 500, 1000),
        },
    )
    small = SMALL_RUNGS | {
        "search.learning_rates": small_rates,
        "sweep.width": (200,),
    }
    quick = QUICK | {"sweep.beta": (1.0, 0.0), "sweep.num_train": (40,)}
    return choose(config, variant, {"small": small, "quick": quick})


SETTINGS = Settings(FIELDS, sweep, check=_check)
default_config, validate = SETTINGS.default_config, SETTINGS.validate
