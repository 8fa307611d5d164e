"""Settings: the paper's lemmas on the gradient, along its flow.

Sources of the defaults: Karp et al. (NeurIPS 2021), section 4; thesis, appendix B.1.3.
"""

from lsa_jax.checks import number
from lsa_jax.experiments.lsa.signal_scaling import settings
from lsa_jax.sweep.fields import Field, Settings, heading, product_of

# Fields of the flow that theorem 1's experiment has too.
_FLOW = ("k", "d", "init_scale", "bias_learning_rate_ratio", "target_error", "duration")

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Lemmas 1 to 3 along the population dynamics"),
    # The distribution, and Algorithm 1 in the limit of small steps.
    **{name: settings.FIELDS[name] for name in _FLOW},
    "noise_scale": settings.FIELDS["noise_scale"]._replace(default=1.0),
    # The lemmas' constants.
    "lemma1_constant": Field(1.0, number(0, above=True),
        "H: lemma 1 is about |w.w*| <= H / log(k)^4"),
    "lemma3_constant": Field(64.0, number(0, above=True),
        "C2: lemma 3 is about w.w* >= C2 / log(k)^4"),
    # The axis of the sweep.
    "sweep.k": Field(tuple(2**power for power in range(6, 21)), settings.FIELDS["sweep.k"].kind,
        "numbers of noise rows"),
}
# fmt: on


SETTINGS = Settings(FIELDS, product_of("k"))
