"""Settings: a one-layer Transformer learns decision lists.

Sources of the defaults: Karp (thesis, 2024), chapter 4.
"""

import scipy.special

from lsa_jax.checks import integer, number, one_of, optional, tuple_of
from lsa_jax.reporting.courses import OF_ANY
from lsa_jax.sweep.fields import Config, Field, Rule, Settings, heading, measure_fields, product

# Swept fields of each question, besides cases and seeds.
AXES: dict[str, tuple[str, ...]] = {
    "value_fixed": (),
    "value_near": ("epsilon",),
    "value_step": ("num_sequences",),
    "value_random": ("value_scale", "randomness"),
}

# More sets of tokens than this do not fit into memory.
MAX_SETS = 1_000_000

_SEED, _SEQUENCES, _EPSILON = integer(0), integer(1), number(0, above=True)
_VALUE_SCALE, _RANDOMNESS = number(0, above=True), number(0, 1)

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Decision lists"),
    "question": Field("value_fixed", one_of(*AXES),
        "V = cP and W trained (theorem 4.3); V near cP and both trained (theorem 4.4); one step on "
        "V (figure 4.1); both trained from a V that is more or less random"),
    "seed": Field(0, _SEED, "draws random lists, V's random part, sampled sequences"),
    # The distribution.
    "vocabulary_size": Field(8, integer(3), "L, tokens and labels"),
    "sequence_length": Field(3, integer(2), "n, tokens of a sequence"),
    "list_length": Field(2, integer(1), "M, tokens of the longest list"),
    "lists": Field("random", one_of("random", "cyclic"), "drawn, lengths too; or shifted copies"),
    "list_step": Field(1, integer(1), "between neighbours of a cyclic list"),
    "label_shift": Field(2, integer(0), "pi(a) - a of cyclic lists"),
    # Theorems 4.3 and 4.4: gradient descent with eta = 1 / lambda_max.
    "epsilon": Field(1.0, _EPSILON, "theorem 4.4: twice V_0's largest distance from cP"),
    "max_steps": Field(1000, integer(1), "a run without perfect classification ends here"),
    "steps_after": Field(20, integer(0), "steps after the first perfect classification"),
    # Figure 4.1: one step on V at W = 0.
    "gradient": Field("exact", one_of("exact", "sampled"), "of the population, or of a sample"),
    "num_sequences": Field(10_000, _SEQUENCES, "sequences of the sample"),
    "value_std": Field(1e-4, number(0), "standard deviation of V_0's entries"),
    "step_size": Field(None, optional(number(0, above=True)), "eta of that step; None takes L^2"),
    # Both trained from V_0 = c ((1 - r) P + r U), the entries of U uniform on [-1, 1].
    "value_scale": Field(1.0, _VALUE_SCALE, "c"),
    "randomness": Field(1.0, _RANDOMNESS, "r: V_0 is cP at 0 and random at 1"),
    "learning_rate": Field(1.0, number(0, above=True), "eta of W and of V"),
    "steps": Field(2000, integer(1), "steps of gradient descent"),
    "eval_every": Field(20, integer(1), "steps between evaluations; the last is always evaluated"),
    "checkpoint_every": Field(20, integer(1), "evaluations between checkpoints"),
    **measure_fields(OF_ANY),
    # The axes of the sweep; the axes after the seeds belong to one question each.
    "sweep.cases": Field(((8, 3, 2),), tuple_of(tuple_of(integer(1))),
        "(L, n, M): tokens, sequence, longest list"),
    "sweep.seed": Field((0,), tuple_of(_SEED), "seeds"),
    "sweep.epsilon": Field((1.0,), tuple_of(_EPSILON), "epsilons"),
    "sweep.num_sequences": Field((10_000,), tuple_of(_SEQUENCES), "sizes of the sample"),
    "sweep.value_scale": Field((1.0,), tuple_of(_VALUE_SCALE), "scales of V_0"),
    "sweep.randomness": Field((1.0,), tuple_of(_RANDOMNESS), "random shares of V_0"),
}
# fmt: on


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the points: case x the question's own axes x seed, an exact gradient first."""
    points: list[dict[str, object]] = []
    for case in config.sweep.cases:
        names = ("vocabulary_size", "sequence_length", "list_length")
        own = {name: (value,) for name, value in zip(names, case, strict=True)}
        if config.question == "value_step":
            points += product(own | {"gradient": ("exact",), "seed": config.sweep.seed[:1]})
            own["gradient"] = ("sampled",)
        axes = {axis: config.sweep[axis] for axis in (*AXES[config.question], "seed")}
        points += product(own | axes)
    return points


# fmt: off
RULES = (
    Rule("sweep.cases", lambda c: all(len(case) == 3 for case in c.sweep.cases),
         "triples (L, n, M)"),
    Rule("measures", lambda c: not c.measures or c.question in ("value_step", "value_random"),
         "() for the question {c.question!r}, whose descent starts again wherever its rate turns "
         "out to be too large; other questions are 'value_step' and 'value_random'"),
    *(Rule(n, lambda c, n=n: c[n] < c.vocabulary_size, "below L = {c.vocabulary_size}")
      for n in ("sequence_length", "list_length")),
    Rule("list_step",
         lambda c: c.lists != "cyclic" or c.list_length == len(
             {i * c.list_step % c.vocabulary_size for i in range(c.list_length)}),
         "one with which the {c.list_length} members of a list differ modulo L = "
         "{c.vocabulary_size}"),
    Rule("sequence_length",
         lambda c: c.question == "value_step"
         or scipy.special.comb(c.vocabulary_size, c.sequence_length) <= MAX_SETS,
         f"lengths with at most {MAX_SETS} sets of L = {{c.vocabulary_size}} tokens"),
)
# fmt: on

SETTINGS = Settings(FIELDS, sweep, RULES)
