r"""Figure 4 (bottom right), Karp et al. 2021: animals or vehicles, on Gaussian noise.

    python -m launch.sweep --config=configs/lsa/fig4_cifar2_gaussian.py \
        --workdir=runs/fig4_cifar2_gaussian --data_dir=DIR

DIR holds cifar-10-batches-bin/. The image goes to a random location; the noise is the standard
deviation of the background. Full: WRN-10-10 and its linearisation, 200 epochs, 10 runs a seed; the
paper took 2 to 10 hours a run on one RTX 2080 Ti. ":small": WRN-10-1 on 2,000 images, at zero and
at the highest noise, three seeds, with the NTK solved exactly, so that it fits its training set;
for a CPU. Their images are half animals and half vehicles, where all of CIFAR-10 is 60 % animals,
and the same in all seeds.
"""

from lsa_jax.experiments.lsa import protocol

get_config = protocol.figure4(
    {
        "title": "CIFAR-2 on Gaussian noise",
        "paper_item": "lsa/table1/cifar2_gaussian",
        "data.task": "cifar2",
        "data.background": "gaussian",
        "data.placement": "random_location",
    }
)
