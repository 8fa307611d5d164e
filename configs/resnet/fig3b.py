"""Figure 3 (b), Allen-Zhu and Li 2019: hidden layers of the ResNet trained on beta F + alpha G(F).

    python -m launch.sweep --config=configs/resnet/fig3b.py --workdir=runs/fig3b

alpha = 0.3 and beta from 1 to 0: the paper's composite signal is learned only where the base signal
is the larger one. It does not give N for this figure: here N is 1,000, as in figure 2 (b).

Three seeds, widths to 1,000; ":small" has width 200. Both run on a CPU.
"""

from lsa_jax.experiments.resnet.hierarchical.settings import figure3

get_config = figure3(
    panel="b",
    trained="hidden",
    num_train=(1000,),
    weight_decays=(0.0002, 0.0005, 0.001, 0.002),
    learning_rates=(0.1, 0.2, 0.5, 1.0),
    small_rates=(0.2, 0.5),
    seeds=3,
)
