"""Fetches a data set into a folder, if it is missing, and checks its files.

Examples:
    python -m launch.data --dataset=mnist --data_dir=data
    python -m launch.data --dataset=cifar10 --data_dir=data

Without --data_dir the folder is LSA_DATA_DIR, and without that the user's cache. Existing files are
checked, but never replaced.
"""

from pathlib import Path

from absl import flags

from launch import _cli

_cli.declare("data_dir")

_NAMES = ("digits", "mnist", "cifar10", "svhn", "tiny_imagenet")
_DATASET = flags.DEFINE_enum("dataset", None, _NAMES, "Data set to fetch and check.")

_CHECKSUM = {
    True: "as published",
    False: "well-formed, but with another checksum than the published data",
    None: "no published checksum",
}


def main() -> None:
    """Fetches, reads and describes the data set."""
    name = _cli.required(_DATASET, f"one of {', '.join(_NAMES)}")

    # Only now: these imports take seconds, and mistakes should not.
    from lsa_jax.data import downloads, images

    # It need not exist yet.
    given = _cli.DATA_DIR.value and Path(_cli.DATA_DIR.value)
    directory = given or downloads.default_data_dir() or downloads.cache_dir()
    downloads.fetch(name, directory)
    image_set, files = images.read(name, directory)

    print(f"{name}, in {directory}" if files else f"{name}, bundled with scikit-learn")
    for file in files:
        print(f"  {file.path.relative_to(directory)}: {_CHECKSUM[file.as_published]}")
    height, width, channels = image_set.train.inputs.shape[1:]
    print(
        f"  {len(image_set.train.inputs):,} training and {len(image_set.test.inputs):,} test "
        f"images of {height} x {width} x {channels}, {len(image_set.class_names)} classes"
    )


if __name__ == "__main__":
    _cli.run(main)
