"""Figure 3 (a), Allen-Zhu and Li 2019: all layers of the ResNet trained on beta F + alpha G(F).

    python -m launch.sweep --config=configs/resnet/fig3a.py --workdir=runs/fig3a

alpha = 0.3 and beta from 1 to 0: the paper's composite signal is learned only where the base signal
is the larger one. It does not give N for this figure: here N is 500, as in figure 2 (a), and 1,000.

Five seeds, widths to 1,000; ":small" has width 200. Both run on a CPU.
"""

from lsa_jax.experiments.resnet.hierarchical.settings import figure3

get_config = figure3(
    panel="a",
    trained="all",
    num_train=(500, 1000),
    weight_decays=(0.0005, 0.001, 0.002, 0.005),
    learning_rates=(0.02, 0.05, 0.1, 0.2),
    small_rates=(0.05, 0.1),
    seeds=5,
)
