r"""Figure A.1, Karp 2024 (thesis): configuration 1a over a wide range of sizes.

    python -m launch.sweep --config=configs/stability/figA_1.py --workdir=runs/figA_1 \
        --data_dir=DIR

ResNet-20 on SVHN, 20 pairs a size, after 50,000 and 150,000 updates, with plain and with
logarithmic axes. The thesis does not print its sizes: here they are 1,000 to 50,000. It sees
different regions of decrease, so the claim is that the loss gap's exponent below 15,000 examples is
not that from there on. The full size needs accelerators.

":small" has ResNet-8 on CIFAR-10 and six sizes, for a CPU, after 1,600 updates, which fit up to 250
examples, and after 12,800, which fit 1,000. The two ranges meet at 500.
"""

from lsa_jax.experiments.stability.settings import configuration

get_config = configuration(
    "1a",
    full={
        "title": "The loss gap over a wide range of sizes (figure A.1)",
        "paper": "figA_1",
        "stops": (50_000, 150_000),
        "report_step": None,
        "connectivity.sizes": (),
        "fit.plain_axes": True,
        "sweep.seed": (0,),
        "sweep.m": (1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 40_000, 50_000),
        "sweep.num_pairs": 20,
    },
    small={
        "connectivity.sizes": (),
        "stops": (1600, 12_800),
        "fit.region_start": 500,
        "sweep.m": (64, 125, 250, 500, 700, 1000),
        "sweep.num_pairs": 4,
    },
    quick={"stops": (2, 4), "sweep.m": (16, 24, 32), "sweep.num_pairs": 2},
)
