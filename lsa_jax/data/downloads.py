"""The published data sets: their addresses, places on disk, and checksums.

A data folder holds every data set in its usual layout, so that files fetched by hand or by another
program are found too. The folder of downloads has the same layout.
"""

import difflib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lsa_jax.errors import InputError, MissingDataError, one_line

DATA_DIR_VARIABLE = "LSA_DATA_DIR"


class Download(NamedTuple):
    """One published file: its address, its checksum "algorithm:digest", and its place.

    `also` are other places below the data folder with the same contents, unpacked or in the layout
    of other programs; they are searched first.
    """

    url: str
    checksum: str
    place: str
    also: tuple[str, ...]


def _mnist(name: str, sha256: str) -> Download:
    # The mirror named by the data set's own page, which no longer serves the files.
    return Download(
        f"https://storage.googleapis.com/cvdf-datasets/mnist/{name}.gz",
        f"sha256:{sha256}",
        f"mnist/{name}.gz",
        (f"mnist/{name}", f"MNIST/raw/{name}", f"MNIST/raw/{name}.gz"),
    )


def _svhn(name: str, sha256: str) -> Download:
    url = f"http://ufldl.stanford.edu/housenumbers/{name}"
    return Download(url, f"sha256:{sha256}", f"svhn/{name}", ())


DOWNLOADS: dict[str, tuple[Download, ...]] = {
    "mnist": (
        _mnist(
            "train-images-idx3-ubyte",
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        ),
        _mnist(
            "train-labels-idx1-ubyte",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        ),
        _mnist(
            "t10k-images-idx3-ubyte",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        ),
        _mnist(
            "t10k-labels-idx1-ubyte",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "cifar10": (
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            "cifar-10-binary.tar.gz",
            ("cifar-10-batches-bin",),
        ),
    ),
    "svhn": (
        _svhn(
            "train_32x32.mat", "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"
        ),
        _svhn("test_32x32.mat", "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
    ),
    "tiny_imagenet": (
        Download(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "sha256:6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
            "tiny-imagenet-200.zip",
            ("tiny-imagenet-200",),
        ),
    ),
}

# MD5 of the published contents, without compression: a repacked archive holds the same data.
CONTENTS_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
    "tiny-imagenet-200.zip": "90528d7ca1a48142e341f4ef8d21d0de",
}


def find(download: Download, data_dir: Path) -> Path | None:
    """Returns the place in the data folder that holds a published file, or None.

    Raises:
        InputError: a place cannot be read.
    """
    for place in (*download.also, download.place):
        try:
            (data_dir / place).stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise InputError(
                f"{data_dir / place} cannot be read: {error.strerror}; accepted: a folder of data "
                "that can be read"
            ) from None
        return data_dir / place
    return None


def folders(directory: Path) -> list[str]:
    """Returns the names of the folders in a folder, sorted; none where it cannot be read."""
    try:
        return sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    except OSError:
        return []


def did_you_mean(name: str, directory: Path) -> str:
    """Returns a suggestion for a folder that does not exist; "" without a similar one."""
    if (meant := _above(directory, lambda parent: (parent / name).is_dir())) is not None:
        return f"the data folder points into {meant / name}; accepted: --data_dir={meant}"
    known = {folder.casefold(): folder for folder in folders(directory)}
    near = difflib.get_close_matches(name.casefold(), known, n=1)
    return f"did you mean {known[near[0]]}?" if near else ""


def _above(directory: Path, holds: Callable[[Path], bool]) -> Path | None:
    """Returns the nearest of three parent folders for which `holds` is true, or None."""
    parents = list(Path(os.path.abspath(directory)).parents)[:3]
    return next((parent for parent in parents if holds(parent)), None)


def _instead(name: str, download: Download, data_dir: Path) -> str:
    """Returns a suggestion where a data folder points into a data set, or ""."""
    if (meant := _above(data_dir, lambda parent: find(download, parent) is not None)) is not None:
        return f"{meant} has it: accepted: --data_dir={meant}; else "
    folder, _, file = download.place.rpartition("/")
    if folder and any((data_dir / Path(place).name).exists() for place in (file, *download.also)):
        return f"accepted: the files of {name} in a folder {folder} of the data folder; else "
    return ""


def require(name: str, data_dir: Path) -> list[Path]:
    """Returns the places that hold the files of a data set, in the order of `DOWNLOADS[name]`.

    Raises:
        MissingDataError: one is missing; the message names the expected path and how to fetch it.
        InputError: a place cannot be read.
    """
    places = []
    for download in DOWNLOADS[name]:
        place = find(download, data_dir)
        if place is None:
            raise MissingDataError(
                f"{data_dir / download.place} does not exist; "
                f"{_instead(name, download, data_dir)}fetch it with "
                f"python -m launch.data --dataset={name} --data_dir={data_dir}"
            )
        places.append(place)
    return places


def fetch(name: str, data_dir: Path) -> None:
    """Downloads missing files of a data set into its usual layout, and checks them.

    A file appears only when it is complete and has the published checksum; existing files stay.

    Raises:
        InputError: the folder cannot be written to, the download fails, or has another checksum.
    """
    import pooch  # here, as few commands need it

    for download in DOWNLOADS.get(name, ()):
        if find(download, data_dir) is not None:
            continue
        target = data_dir / download.place
        try:
            pooch.retrieve(
                download.url,
                known_hash=download.checksum,
                fname=target.name,
                path=target.parent,
                progressbar=sys.stderr.isatty(),
            )
            target.chmod(0o644)  # only the owner can read pooch's temporary files
        except (OSError, ValueError) as error:
            # Network errors of requests are OSErrors; a wrong checksum is a ValueError.
            reason = one_line(error)
            raise InputError(
                f"{target} could not be fetched from {download.url}: {reason}"
            ) from None


def default_data_dir() -> Path | None:
    """Returns the folder named by the environment variable LSA_DATA_DIR, or None."""
    given = os.environ.get(DATA_DIR_VARIABLE)
    return Path(os.path.expanduser(os.path.expandvars(given))) if given else None


def cache_dir() -> Path:
    """Returns the user's folder of downloads."""
    import pooch  # here, as in `fetch`

    return Path(pooch.os_cache("lsa_jax"))
