"""Settings: a ResNet, other networks and kernels on a two-stage target.

Sources of the defaults: Allen-Zhu and Li (2019), section 8.1.
"""

from collections.abc import Callable
from typing import Any

from lsa_jax.checks import integer, number, one_of, optional, text, tuple_of
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, measure_fields, product
from lsa_jax.sweep.variants import configurations

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
_RATES, _DECAYS = (tuple_of(kind, empty=False) for kind in (_RATE, _DECAY))

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Hierarchical targets"),
    "question": Field("width", one_of("width", "beta", "alpha", "nets", "samples", "epochs"),
        "axis of the figure and claims of the paper: figure 2; figure 3; theorem 1; which part "
        "of the net does it; theorem 2; which signal is learned first"),
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
    # The network and its trained part.
    "net": Field("3resnet", one_of(*NETS, "none"), "see resnet.shallow; none for input kernels"),
    "learner": Field("all", one_of(*LEARNERS), "see this module"),
    "width": Field(200, _WIDTH, "m"),
    "init": Field("mixed", one_of("width", "fan_in", "fans", "mixed"),
        "size of entries; see resnet.shallow"),
    # SGD and its search.
    "batch_size": Field(50, _SIZE, "examples a step"),
    "epochs": Field(800, integer(2), "passes over the training examples"),
    "momentum": Field(0.9, number(0, 0.999), "of SGD"),
    "fall_epoch": Field(400, integer(1), "epochs after which the rate is divided by 10"),
    "eval_every": Field(50, _SIZE, "epochs between evaluations"),
    "search.learning_rates": Field((0.1,), _RATES, "rates of all and hidden"),
    "search.weight_decays": Field((0.005,), _DECAYS, "decays of all and hidden"),
    "search.kernel_learning_rates": Field((0.02,), _RATES, "rates of last and ntk"),
    "search.kernel_weight_decays": Field((0.005,), _DECAYS, "decays of last and ntk"),
    "search.rung_epochs": Field((), tuple_of(_SIZE), "when candidates are dropped"),
    "search.rung_keep": Field((), tuple_of(_SIZE), "how many go on from each, all and hidden"),
    "search.kernel_rung_keep": Field((), tuple_of(_SIZE), "how many go on, last and ntk"),
    "search.hopeless": Field(3.0, number(1.0),
        "rungs drop candidates above this multiple of the targets' mean square"),
    # Exact kernels.
    "ridges": Field((1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0), _RATES, "over the kernel's mean diagonal"),
    "bandwidths": Field((0.5, 1.0, 2.0), _RATES, "of the Gaussian kernel, over the inputs' length"),
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
    "sweep.tasks": Field((), tuple_of(tuple_of(_SIZE)),
        "(d, base_degree, composite_degree[, outputs]); likewise"),
}
# fmt: on


def num_outputs(config: Config) -> int:
    """Returns k."""
    return config.outputs or config.d // config.base_degree


def sweep(config: Config) -> list[dict[str, Any]]:
    """Returns every point: series, baselines, exact kernels and limits on each task."""
    axes = config.sweep
    exact_sizes = axes.exact_num_train or axes.num_train
    limit_sizes = axes.limit_num_train or axes.num_train
    parts = (
        (axes.series, axes.width, axes.seed, axes.num_train),
        (axes.baselines, axes.width, axes.baseline_seed, axes.num_train),
        (axes.exact, axes.exact_width, axes.baseline_seed, exact_sizes),
        (axes.limits, (), axes.baseline_seed, limit_sizes),
    )
    points = []
    for task in axes.tasks or ((),):
        for series, widths, seeds, sizes in parts:
            own = {"beta": axes.beta, "alpha": axes.alpha, "num_train": sizes}
            own |= {"width": widths, "seed": seeds}
            settings = product({name: values for name, values in own.items() if values})
            points += [
                {**dict(zip(TASK, task, strict=False)), "net": net, "learner": learner, **one}
                for net, learner in series
                for one in settings
            ]
    return points


_PAIRS = "pairs of (net, learner)"
_OF_ONE_LENGTH = "as many numbers as config.search.rung_epochs has, {c.search.rung_epochs}"

# fmt: off
RULES = (
    *(
        Rule(f"sweep.{name}", lambda c, n=name: all(len(pair) == 2 for pair in c.sweep[n]), _PAIRS)
        for name in ("series", "baselines", "exact", "limits")
    ),
    Rule("sweep.tasks", lambda c: all(len(task) in (3, 4) for task in c.sweep.tasks),
         "(d, base_degree, composite_degree) or (d, base_degree, composite_degree, outputs)"),
    Rule("outputs", lambda c: num_outputs(c) <= c.d // c.base_degree,
         "at most config.d / config.base_degree = {c.d} / {c.base_degree}"),
    Rule("composite_degree",
         lambda c: num_outputs(c) and (c.target != "parity"
         or c.composite_degree <= num_outputs(c)),
         "at most the outputs of a base signal of degree {c.base_degree} on d = {c.d}"),
    Rule("net", lambda c: (c.learner in INPUT_LEARNERS) == (c.net == "none"),
         f"'none' with the learners {', '.join(INPUT_LEARNERS)}, a network with all others; "
         "config.learner is {c.learner!r}"),
    Rule("net",
         lambda c: c.learner not in INFINITE_LEARNERS or (c.net in NETS_WITH_LIMIT
         and c.init != "fan_in"),
         f"one of {', '.join(NETS_WITH_LIMIT)} with config.init not 'fan_in' where config.learner "
         "is {c.learner!r}; config.init is {c.init!r}"),
    Rule("num_train",
         lambda c: c.learner != "ntk_exact" or c.num_train * num_outputs(c) <= MAX_SIDE,
         f"times the outputs at most {MAX_SIDE} where config.learner is 'ntk_exact'"),
    Rule("learner", lambda c: c.question != "epochs" or c.learner in SEARCHED,
         f"one of {', '.join(SEARCHED)} where config.question is 'epochs'"),
    Rule("beta", lambda c: c.question != "epochs" or c.beta > 0,
         "above 0 where config.question is 'epochs'"),
    *(
        Rule(
            f"search.{name}",
            lambda c, n=name: len(c.search[n]) == len(c.search.rung_epochs),
            _OF_ONE_LENGTH,
        )
        for name in ("rung_keep", "kernel_rung_keep")
    ),
    Rule("search.rung_epochs",
         lambda c: [*c.search.rung_epochs] == sorted({*c.search.rung_epochs})
         and max(c.search.rung_epochs, default=0) < c.epochs,
         "increasing numbers below config.epochs = {c.epochs}"),
)
# fmt: on

SETTINGS = Settings(FIELDS, sweep, RULES)

# Rungs of a full search. Without dropping any, candidates that were best after 800 epochs had been
# as low as 17th of 30 after 50 epochs, 6th after 100 and after 400, when the rate falls, and 2nd
# soon after that.
RUNGS = {
    "search.rung_epochs": (50, 100, 200, 400, 500),
    "search.rung_keep": (20, 16, 9, 7, 3),
    "search.kernel_rung_keep": (8, 4, 2, 1, 1),
}

# Rungs of a search of six candidates. In figure 2 (a) the one that was best after 800 epochs had
# been as low as 5th after 100 epochs and 4th after 200, and 1st after 500.
SMALL_RUNGS = {
    "search.rung_epochs": (200, 500),
    "search.rung_keep": (4, 2),
    "search.kernel_rung_keep": (2, 1),
}

# Sizes for tests.
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
    panel: str,
    trained: str,
    num_train: tuple[int, ...],
    learning_rates: tuple[float, ...],
    weight_decays: tuple[float, ...],
    small_rates: tuple[float, ...],
    seeds: int,
) -> Callable[[str], Config]:
    """Returns `get_config` of panel "a" or "b": the ResNet's error on beta F + alpha G(F).

    `trained` layers are "all" or "hidden"; the small variant searches `small_rates`.
    """
    full = {
        "title": f"Test error on beta F + alpha G(F), {trained} layers trained (figure 3 {panel})",
        "question": "beta",
        "sweep.num_train": num_train,
        "search.learning_rates": learning_rates,
        "search.weight_decays": weight_decays,
        "sweep.series": (("3resnet", trained),),
        "sweep.seed": tuple(range(seeds)),
        "sweep.beta": (1.0, 0.5, 0.3, 0.2, 0.0),
        "sweep.width": (20, 50, 100, 200, 500, 1000),
    }
    return configurations(
        SETTINGS,
        full=RUNGS | full,
        small=SMALL_RUNGS | {"search.learning_rates": small_rates, "sweep.width": (200,)},
        quick=QUICK | {"sweep.beta": (1.0, 0.0), "sweep.num_train": (40,)},
    )
