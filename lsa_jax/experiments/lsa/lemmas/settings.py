"""Settings: the paper's lemmas on the gradient, along its flow.

Sources of the defaults: Karp et al. (NeurIPS 2021), section 4; thesis, appendix B.1.3.
"""

from lsa_jax.checks import integer, number, optional, text, tuple_of
from lsa_jax.sweep.fields import Field, Settings, experiment_field, product_of

_K = integer(3)

# fmt: off
FIELDS: dict[str, Field] = {
    "experiment": experiment_field(__name__),
    "title": Field("Lemmas 1 to 3 along the population dynamics", text(), "heading of the report"),
    # The distribution.
    "k": Field(1024, _K, "noise rows of an example"),
    "d": Field(10, integer(2), "length of a row"),
    "noise_scale": Field(1.0, number(0, 1000, above=True),
        "multiplies the noise's std, log(k)/sqrt(k)"),
    # Algorithm 1 in the limit of small steps.
    "init_scale": Field(1e-6, number(1e-15), "std of the initial filter's entries"),
    "bias_learning_rate_ratio": Field(None, optional(number(0)),
        "eta_b / eta_w; None takes the paper's 1 / k"),
    "target_error": Field(0.01, number(1e-6, 0.4), "error at which training ends"),
    "duration": Field(1e8, number(1.0), "learning rate times steps at which it ends at the latest"),
    # The lemmas' constants.
    "lemma1_constant": Field(1.0, number(0, above=True),
        "H: lemma 1 is about |w.w*| <= H / log(k)^4"),
    "lemma3_constant": Field(64.0, number(0, above=True),
        "C2: lemma 3 is about w.w* >= C2 / log(k)^4"),
    # The axis of the sweep.
    "sweep.k": Field(tuple(2**power for power in range(6, 21)), tuple_of(_K),
        "numbers of noise rows"),
}
# fmt: on


SETTINGS = Settings(FIELDS, product_of("k"))
