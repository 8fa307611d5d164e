"""`launch.data` fetches missing files, and checks, describes and never replaces others."""

import shutil

import numpy as np
import pytest
import scipy.io

from launch import data
from lsa_jax.errors import InputError


def write_svhn(folder):
    folder.mkdir(parents=True)
    for part, count in (("train", 12), ("test", 5)):
        pixels, labels = np.zeros((32, 32, 3, count), np.uint8), np.ones((count, 1), np.uint8)
        scipy.io.savemat(folder / f"{part}_32x32.mat", {"X": pixels, "y": labels})


@pytest.fixture
def run(monkeypatch, given):
    """Calls `main` with flags, in this process."""
    monkeypatch.delenv("LSA_DATA_DIR", raising=False)

    def call(data_dir=None):
        with given(dataset="svhn", data_dir=data_dir and str(data_dir)):
            data.main()

    return call


@pytest.fixture
def fetched(tmp_path, monkeypatch):
    """Publishes a small SVHN; returns the list of fetched files."""
    write_svhn(tmp_path / "published")
    found = []

    def retrieve(url, known_hash, fname, path, progressbar):
        found.append(fname)
        path.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "published" / fname, path / fname)

    monkeypatch.setattr("pooch.retrieve", retrieve)
    return found


def test_digits_need_no_folder_and_no_network(launch):
    result = launch("data", "--dataset=digits")
    assert "1,437 training and 360 test images of 8 x 8 x 1, 10 classes" in result.stdout
    assert result.returncode == 0 and result.stderr == ""


def test_missing_data_are_fetched_once_and_described(run, fetched, tmp_path, capsys):
    run(tmp_path / "new")
    first = capsys.readouterr().out
    assert fetched == ["train_32x32.mat", "test_32x32.mat"]
    assert "svhn/train_32x32.mat: well-formed, but with another checksum" in first
    assert "12 training and 5 test images of 32 x 32 x 3, 10 classes" in first
    run(tmp_path / "new")
    assert capsys.readouterr().out == first and len(fetched) == 2


def test_damaged_data_are_refused_and_left_alone(run, fetched, refused, tmp_path):
    write_svhn(tmp_path / "svhn")
    path = tmp_path / "svhn/train_32x32.mat"
    path.write_bytes(b"damaged")
    with pytest.raises(InputError, match=str(path)):
        run(tmp_path)
    assert path.read_bytes() == b"damaged" and not fetched
    assert str(path) in refused("data", "--dataset=svhn", f"--data_dir={tmp_path}")
