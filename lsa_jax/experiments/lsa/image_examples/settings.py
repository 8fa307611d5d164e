"""Settings: the noise curves' of data, and the images to show."""

from lsa_jax.checks import integer, tuple_of
from lsa_jax.experiments.lsa.noise_curves import settings
from lsa_jax.sweep.fields import Config, Field, Settings, heading, product

# fmt: off
FIELDS: dict[str, Field] = {
    **heading(__name__, "Images on backgrounds"),
    "num_examples": Field(3, integer(1), "images of each kind"),
    **{
        name: field
        for name, field in settings.FIELDS.items()
        if name.startswith("data.") or name in ("noise", "seed")
    },
    "sweep.background": Field(("gaussian",), tuple_of(settings.FIELDS["data.background"].kind),
        "backgrounds"),
    "sweep.placement": Field(("random_location", "random_corner", "fixed_corner"),
        settings.FIELDS["sweep.placement"].kind, "placements; distractors have no random_location"),
    "sweep.std": Field((0.0, 0.5, 1.0, 1.5, 2.0), settings.FIELDS["sweep.noise"].kind,
        "Gaussian backgrounds: standard deviations"),
    "sweep.intensity": Field((0.0, 0.25, 0.5, 0.75, 1.0), settings.FIELDS["sweep.noise"].kind,
        "photographs and distractors: intensities"),
}
# fmt: on


def sweep(config: Config) -> list[dict[str, object]]:
    """Returns the swept settings of every point: background x placement x noise.

    Distractors go with the vehicles of CIFAR-10, and only in corners.
    """
    axes, points = config.sweep, []
    levels = {"gaussian": axes.std, "none": (0.0,)}
    for background in axes.background:
        places, task = axes.placement, config.data.task
        if background == "distractors":
            places, task = [place for place in places if place != "random_location"], "vehicles"
        own = {"data.background": (background,), "data.placement": places}
        own |= {"noise": levels.get(background, axes.intensity), "data.task": (task,)}
        points += product(own)
    return points


SETTINGS = Settings(FIELDS, sweep, settings.DATA_RULES)
