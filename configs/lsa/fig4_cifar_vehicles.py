r"""Figure 4 (top right), Karp et al. 2021: four kinds of vehicles among images of animals.

    python -m launch.sweep --config=configs/lsa/fig4_cifar_vehicles.py \
        --workdir=runs/fig4_cifar_vehicles --data_dir=DIR

DIR holds cifar-10-batches-bin/. The vehicle takes a random corner, random animals the other three;
the noise is their intensity. Full: WRN-10-10 and its linearisation, 200 epochs, 10 runs a seed; the
paper took 2 to 10 hours a run on one RTX 2080 Ti. ":small": WRN-10-1 on 2,000 images, at zero and
at the highest noise, three seeds, with the NTK solved exactly, so that it fits its training set;
for a CPU.
"""

from lsa_jax.experiments.lsa import protocol

get_config = protocol.figure4(
    {
        "title": "CIFAR-Vehicles",
        "paper_item": "lsa/table1/cifar_vehicles",
        "data.task": "vehicles",
        "data.background": "distractors",
        "data.placement": "random_corner",
    }
)
