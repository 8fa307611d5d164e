"""Data: image data sets, tasks and backgrounds.

From a published data set to composed training images:

    image_set = load("mnist", data_dir)  # or digits, cifar10, svhn, tiny_imagenet, a folder
    task = task_view(image_set, "all", num_train=1000)  # one-hot targets, subsets
    composition = Composition(28, 42, placement="random_location", background="gaussian")
    images = compose(composition, key, task.train.inputs, jnp.arange(1000), epoch=0, noise=1.0)
"""

from lsa_jax.data.backgrounds import Composition, compose
from lsa_jax.data.dataset import Dataset
from lsa_jax.data.images import (
    ChecksumWarning,
    ImageSet,
    PictureWarning,
    load,
    load_folder,
    photographs,
)
from lsa_jax.data.resizing import resize
from lsa_jax.data.tasks import TaskData, task_view

__all__ = [
    "ChecksumWarning",
    "Composition",
    "Dataset",
    "ImageSet",
    "PictureWarning",
    "TaskData",
    "compose",
    "load",
    "load_folder",
    "photographs",
    "resize",
    "task_view",
]
