"""`lsa-jax diagnose` answers from a file of Python and data; bad input costs one line."""

import re
import runpy
import shlex
import sys

import numpy as np
import pytest
from PIL import Image

from lsa_jax import user_files
from lsa_jax.diagnosis import command
from lsa_jax.sweep import config_files

MODEL = """
from __future__ import annotations

from flax import linen as nn


class Net(nn.Module):  # a dataclass, whose annotations are texts here
    width: int = 4

    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.relu(nn.Dense(self.width)(x.reshape(len(x), -1))))


make = Net()
broken = 3
"""


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Runs the command in a folder with a model and data; returns status, output and errors."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_model.py").write_text(MODEL)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(160, 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", X=x, y=(x[:, 0] > 0).astype(int))
    np.savez(tmp_path / "other.npz", a=x)
    np.savez(tmp_path / "half.npz", X=x, y=(x[:, 0] > 0).astype(int), X_test=x)
    np.savez(tmp_path / "objects.npz", X=np.array([{}], object), y=x)
    np.savez_compressed(tmp_path / "damaged.npz", X=x, y=x)
    packed = (tmp_path / "damaged.npz").read_bytes()
    (tmp_path / "damaged.npz").write_bytes(packed[:100] + bytes(50) + packed[150:])
    np.save(tmp_path / "one.npy", x)
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["lsa-jax", *arguments])
        command._FLAGS.unparse_flags()
        for flag in command._FLAGS:
            command._FLAGS[flag].unparse()
        status = 0
        try:
            runpy.run_module("lsa_jax", run_name="__main__")
        except SystemExit as end:
            status = end.code
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


SIZES = ("--seeds=1", "--folds=1", "--examples=160", "--epochs=2")


def test_it_prints_the_answer_and_writes_a_page(call, tmp_path):
    page = tmp_path / "answer.html"
    given = ("diagnose", "my_model.py:make", "--data=data.npz", f"--html={page}")
    status, out, _ = call(*given, *SIZES)
    assert status == 0 and "dynamics" in out and "network" in out
    assert "after 2 epochs" in out
    text = page.read_text()
    assert text.startswith("<!doctype html>") and shlex.join(["lsa-jax", *given, *SIZES]) in text


NETWORK = """
from __future__ import annotations
import dataclasses

@dataclasses.dataclass
class Net:
    width: int = 3

def get_config():
    from beside_the_network import WIDTH
    return Net(WIDTH)
"""


def test_a_file_of_ones_own_may_have_annotations_as_text_and_late_imports(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside_the_network.py").write_text("WIDTH = 8")
    (tmp_path / "my net.py").write_text(NETWORK)
    assert user_files.load("model", f"{tmp_path}/my net.py:get_config")().width == 8
    assert config_files.load(tmp_path / "my net.py").get_config().width == 8


@pytest.mark.filterwarnings("always::lsa_jax.data.PictureWarning")
def test_a_folder_of_images_is_read(call, tmp_path):
    for label in ("cat", "dog"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for i in range(30):
            level = 40 * (label == "dog") + 5 * i
            Image.new("RGB", (5, 4), (level, i, 0)).save(tmp_path / "pets" / label / f"{i}.png")
    (tmp_path / "pets" / "cat" / "unknown.heic").write_bytes(b"")
    status, out, error = call("diagnose", "my_model.py:make", "--data=pets", "--size=4",
                              "--seeds=1", "--epochs=2", "--examples=40")  # fmt: skip
    assert status == 0 and "2 classes" in out
    assert any(re.match("warning: .*PictureWarning", line) for line in error.splitlines())
    assert "warnings.warn" not in error


@pytest.mark.parametrize(
    "arguments, named",
    [
        ((), "diagnose"),
        (("diagnose", "my_model.py:make"), "--data"),
        (("diagnose", "my_model.py:mak", "--data=data.npz"), "make"),
        (("diagnose", "my_model:make", "--data=data.npz"), "FILE.py:NAME"),
        (("diagnose", "gone.py:make", "--data=data.npz"), "gone.py"),
        (("diagnose", "my_model.py:broken", "--data=data.npz"), "model"),
        (("diagnose", "my_model.py:make", "--data=gone"), "gone"),
        (("diagnose", "my_model.py:make", "--data=other.npz"), "X and y"),
        (("diagnose", "my_model.py:make", "--data=half.npz"), "both X_test and y_test"),
        (("diagnose", "my_model.py:make", "--data="), "--data is ''"),
        (("diagnose", "my_model.py:make", "--data=data.npz", "--html="), "--html is ''"),
        (("diagnose", "my_model.py:make", "--data=objects.npz"), "objects.npz"),
        (("diagnose", "my_model.py:make", "--data=damaged.npz"), "damaged.npz"),
        (("diagnose", "my_model.py:make", "--data=one.npz"), "X and y"),
        (("diagnose", "my_model.py:make", "--data=~nobody_has_this_name/x.npz"), "does not exist"),
        (("diagnose", "~nobody_has_this_name/a.py:make", "--data=data.npz"), "no file"),
        (("diagnose", "my_model.py:make", "--dat=data.npz"), "--data"),
        (("diagnose", "my_model.py:make", "--data=data.npz", "--minutes=soon"), "minutes"),
        (("diagnose", "my_model.py:make", "--data=data.npz", "--minutes=-1"), "minutes"),
        (("diagnose", "my_model.py:make", "--data=data.npz", "--key=-1"), "--key"),
        (("diagnose", "my_model.py:make", "--data=data.npz", f"--key={2**32}"), "--key"),
        (("diagnose", "my_model.py:make", "--data=gone", "--html=no_folder/x.html"), "--html"),
        (("diagnose", "my_model.py:make", "--data=gone", "--html=."), "--html"),
    ],
)
def test_bad_input_costs_one_line_and_exit_status_2(call, arguments, named):
    status, _, error = call(*arguments)
    assert status == 2 and len(error.strip().splitlines()) == 1 and named in error
