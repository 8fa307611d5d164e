r"""Growing backgrounds, Karp et al. 2021, section 6: CIFAR-2 on ever larger photographs.

    python -m launch.sweep --config=configs/lsa/growing_background.py \
        --workdir=runs/growing_background --data_dir=DIR

DIR holds cifar-10-batches-bin/ and photographs below plants/ (ImageNet's Plants synset in the
paper). An image of 16 x 16 lies at a random location of a photograph at full intensity, whose side
grows from 16 pixels, where nothing of it is seen, to 64; the paper gives no sizes.
Full: WRN-10-10 and its linearisation, 200 epochs, 10 runs a seed; needs a GPU. ":small": WRN-10-1
on 2,000 images, backgrounds of 16 and 32 pixels, three seeds, with the NTK solved exactly, for a
CPU.
"""

from lsa_jax.experiments.lsa import protocol

get_config = protocol.figure4(
    {
        "title": "CIFAR-2 on photographs of growing size",
        "figure_axis": "background_size",
        "data.task": "cifar2",
        "data.background": "photographs",
        "data.photographs": "plants",
        "data.placement": "random_location",
        # At every size the paper's values on 64 x 64, so that the size alone changes.
        "network.batch_size": 50,
        "network.learning_rate": 0.05,
        "sweep.noise": (1.0,),
        "sweep.size": tuple((16, side) for side in (16, 24, 32, 48, 64)),
    },
    small=protocol.SMALL | {"sweep.size": ((16, 16), (16, 32))},
    quick=protocol.QUICK | {"sweep.size": ((16, 16), (16, 24))},
)
