"""`launch.data` fetches, checks and describes; mistakes are one line and exit status 2."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from absl import flags
from absl.testing import flagsaver

from launch import data
from lsa_jax.data import downloads, images
from lsa_jax.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


def launch(*arguments):
    """Runs the script from the project's root."""
    return subprocess.run(
        [sys.executable, "-m", "launch.data", *map(str, arguments)],
        cwd=ROOT,
        env={"PATH": "", "HOME": "/nonexistent", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def run(monkeypatch):
    """Calls `main` with flags, in this process."""
    monkeypatch.delenv("LSA_DATA_DIR", raising=False)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()

    def call(dataset=None, data_dir=None):
        with flagsaver.flagsaver(dataset=dataset, data_dir=data_dir and str(data_dir)):
            data.main()

    return call


def write_svhn(folder):
    folder.mkdir(parents=True)
    for part, count in (("train", 12), ("test", 5)):
        variables = {
            "X": np.zeros((32, 32, 3, count), np.uint8),
            "y": np.ones((count, 1), np.uint8),
        }
        scipy.io.savemat(folder / f"{part}_32x32.mat", variables)


@pytest.fixture
def published(tmp_path, monkeypatch):
    """Publishes a small SVHN; returns the list of what was fetched."""
    write_svhn(tmp_path / "published")
    fetched = []

    def retrieve(url, known_hash, fname, path, progressbar):
        fetched.append(fname)
        path.mkdir(parents=True, exist_ok=True)
        shutil.copy(tmp_path / "published" / fname, path / fname)

    monkeypatch.setattr(downloads.pooch, "retrieve", retrieve)
    return fetched


def test_digits_need_no_folder_and_no_network(fork):
    environment = {"PATH": "", "HOME": "/nonexistent", "JAX_PLATFORMS": "cpu"}
    status, output, errors = fork("data", "--dataset=digits", environment=environment).wait()
    assert status == 0, errors
    assert "1,437 training and 360 test images of 8 x 8 x 1, 10 classes" in output
    assert errors == ""


def test_missing_data_is_fetched_once_and_described(run, published, tmp_path, capsys):
    run("svhn", tmp_path / "new")
    first = capsys.readouterr().out
    assert published == ["train_32x32.mat", "test_32x32.mat"]
    assert "svhn/train_32x32.mat: well-formed, but with another checksum" in first
    assert "12 training and 5 test images of 32 x 32 x 3, 10 classes" in first
    run("svhn", tmp_path / "new")
    assert capsys.readouterr().out == first
    assert len(published) == 2


def test_environment_variable_names_the_folder(run, published, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LSA_DATA_DIR", str(tmp_path / "there"))
    run("svhn")
    assert (tmp_path / "there/svhn/test_32x32.mat").exists()
    assert f"svhn, in {tmp_path / 'there'}" in capsys.readouterr().out


def test_without_a_folder_data_goes_to_the_cache(run, published, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "cache_dir", lambda: tmp_path / "cache")
    run("svhn")
    assert (tmp_path / "cache/svhn/test_32x32.mat").exists()


def test_damaged_data_is_refused_and_left_alone(run, published, tmp_path):
    write_svhn(tmp_path / "mine/svhn")
    path = tmp_path / "mine/svhn/train_32x32.mat"
    path.write_bytes(b"damaged")
    with pytest.raises(InputError, match=str(path)):
        run("svhn", tmp_path / "mine")
    assert path.read_bytes() == b"damaged"
    assert published == []


def test_every_published_set_can_be_fetched():
    assert data._NAMES == images.NAMES


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], ["--dataset is missing", "mnist", "tiny_imagenet"]),
        (["--dataset=mnits"], ["mnits", "mnist"]),
        (["--dataset=mnist", "DIR"], ["unexpected argument 'DIR'"]),
        (["--dataset=mnist", "--datadir=DIR"], ["datadir"]),
    ],
)
def test_mistake_in_a_flag_is_one_line(arguments, words):
    result = launch(*arguments)
    assert result.returncode == 2
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    for word in words:
        assert word in line


def test_damaged_data_is_one_line_and_exit_status_2(tmp_path):
    write_svhn(tmp_path / "svhn")
    path = tmp_path / "svhn/test_32x32.mat"
    path.write_bytes(b"damaged")
    result = launch("--dataset=svhn", f"--data_dir={tmp_path}")
    assert result.returncode == 2
    (line,) = result.stderr.strip().splitlines()
    assert str(path) in line


def test_mistake_in_a_flag_is_answered_before_jax_is_imported():
    program = (
        "import sys; sys.argv = ['data', '--dataset=mnits']\n"
        "from launch import _cli, data\n"
        "try:\n    _cli.run(data.main)\n"
        "except SystemExit as end:\n    sys.exit(f'{end.code} {\"jax\" in sys.modules}')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stderr.strip().splitlines()[-1] == "2 False"
