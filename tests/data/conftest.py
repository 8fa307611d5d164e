"""Small data sets in the published formats, written by the tests themselves."""

import gzip
import io
import struct
import zipfile

import numpy as np
import pytest
import scipy.io
from PIL import Image

from lsa_jax.data import _image_files

TRAIN, TEST = 20, 10


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    monkeypatch.delenv("LSA_DATA_DIR", raising=False)


def idx_bytes(array):
    """Returns an IDX file of bytes."""
    header = struct.pack(f">{1 + array.ndim}i", 0x800 + array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def png_bytes(pixels):
    """Returns a PNG file; it keeps every pixel exactly."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def mnist_dir(tmp_path):
    """A data folder with 20 + 10 digits in MNIST's format."""
    rng = np.random.default_rng(0)
    (tmp_path / "mnist").mkdir()
    for part, count in (("train", TRAIN), ("t10k", TEST)):
        images = idx_bytes(rng.integers(0, 256, (count, 28, 28)))
        labels = idx_bytes(np.arange(count) % 10)
        (tmp_path / f"mnist/{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (tmp_path / f"mnist/{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    return tmp_path


@pytest.fixture
def cifar10_dir(tmp_path, monkeypatch):
    """A data folder with 6 batches of 20 images in the binary format of CIFAR-10."""
    monkeypatch.setattr(_image_files, "CIFAR10_BATCH", TRAIN)
    rng = np.random.default_rng(0)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
        records = rng.integers(0, 256, (TRAIN, 3073)).astype(np.uint8)
        records[:, 0] = np.arange(TRAIN) % 10
        (folder / name).write_bytes(records.tobytes())
    return tmp_path


@pytest.fixture
def svhn_dir(tmp_path):
    """A data folder with 20 + 10 cropped digits in SVHN's format."""
    rng = np.random.default_rng(0)
    (tmp_path / "svhn").mkdir()
    for part, count in (("train", TRAIN), ("test", TEST)):
        images = rng.integers(0, 256, (32, 32, 3, count)).astype(np.uint8)
        labels = (np.arange(count, dtype=np.uint8) % 10 + 1)[:, None]
        scipy.io.savemat(tmp_path / f"svhn/{part}_32x32.mat", {"X": images, "y": labels})
    return tmp_path


@pytest.fixture
def tiny_imagenet_dir(tmp_path):
    """A data folder with two classes of tiny ImageNet, zipped; one picture in 50 is grey.

    Every picture is one colour: the number of its class times 100, plus 50 in the validation part.
    """
    ids = ["n02", "n01"]
    with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as archive:
        archive.writestr("tiny-imagenet-200/wnids.txt", "\n".join(ids) + "\n")
        annotations = []
        for label, wnid in enumerate(sorted(ids)):
            train = png_bytes(np.full((64, 64, 3), 100 * label, np.uint8))
            val = png_bytes(np.full((64, 64, 3), 100 * label + 50, np.uint8))
            grey = png_bytes(np.full((64, 64), 100 * label, np.uint8))
            for i in range(500):
                name = f"tiny-imagenet-200/train/{wnid}/images/{wnid}_{i}.JPEG"
                archive.writestr(name, train if i % 50 else grey)
            for i in range(50):
                name = f"val_{label}_{i}.JPEG"
                archive.writestr(f"tiny-imagenet-200/val/images/{name}", val)
                annotations.append(f"{name}\t{wnid}\t0\t0\t63\t63\n")
        annotations = "".join(annotations)
        archive.writestr("tiny-imagenet-200/val/val_annotations.txt", annotations)
        archive.writestr("tiny-imagenet-200/test/images/test_0.JPEG", val)
    return tmp_path


@pytest.fixture
def folder_dir(tmp_path):
    """A data folder with `pets`: 10 cats and 5 dogs of 6 x 4 pixels, the i-th all of value i."""
    for name, count in (("cat", 10), ("dog", 5)):
        folder = tmp_path / "pets" / name
        folder.mkdir(parents=True)
        for i in range(count):
            pixels = np.full((4, 6, 3), i, np.uint8)
            (folder / f"{i:02}.png").write_bytes(png_bytes(pixels))
    return tmp_path
