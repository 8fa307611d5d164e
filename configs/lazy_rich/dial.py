"""From lazy to rich: a network on noisy digits by its output scale, and by its width.

    python -m launch.sweep --config=configs/lazy_rich/dial.py --workdir=runs/dial

The quickstart's digits at noise 1, which a network reads and its kernels do not. The dial alpha
trains alpha (f - f_0) at a rate that moves outputs alike; the width is turned in the NTK, standard
and muP parameterisation. Measures: kernel distance and alignment, weight movement, correlation of
weights with the average gradient outer product, and c; at each alpha the NTK after training too,
and whether the network is lazy or rich.

Five seeds; ":small" has three, six of ten alpha and widths to 4, and no NTK after training. Both
run on a CPU.
"""

from lsa_jax.experiments.lazy_rich.dial.settings import LEARNERS, SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "From lazy to rich: noisy digits by output scale and width",
        "data.background_size": 16,
        "data.noise": 1.0,
        # 2,880 test images, whose error leaves room within the report's margin of 3 points.
        "data.test_copies": 8,
        "warmup_epochs": 5.0,
        "ridge": None,
        "sweep.learner": LEARNERS,
        "sweep.output_scale": (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0),
        "sweep.seed": (0, 1, 2, 3, 4),
    },
    small={
        "ridge": 1e-3,
        "sweep.learner": LEARNERS[:3],
        "sweep.width_factor": (1, 2, 4),
        "sweep.output_scale": (0.25, 1.0, 4.0, 16.0, 64.0, 256.0),
        "sweep.seed": (0, 1, 2),
    },
    quick={
        "data.num_train": 48,
        "data.num_test": 24,
        "epochs": 1,
        "model.channels": (2, 3),
        "measured_examples": 8,
        "sweep.output_scale": (1.0, 16.0),
        "sweep.of_scale": ("standard",),
        "sweep.width_factor": (1, 2),
        "sweep.of_width": ("ntk", "mup"),
        "sweep.seed": (0,),
    },
)
