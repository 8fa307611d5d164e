"""Table 4 at 90 %, figures 11, 12, Shi, Wei and Liang 2022: 90 % of the labels are -1.

    python -m launch.sweep --config=configs/feature_learning/table4_90.py --workdir=runs/t4_90

Training and test examples have that share exactly, by rejection. A constant is right on 90 %.

All else as in table4_80.py. Both of the paper's fixed features are below a constant's accuracy,
as they are where every update weighs classes alike.
"""

from lsa_jax.experiments.feature_learning.tables import unbalanced

get_config = unbalanced(90)
