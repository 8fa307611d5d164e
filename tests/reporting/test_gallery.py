"""Figures of the gallery are small, and the same drawings."""

import io
import re
import xml.etree.ElementTree as ElementTree

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from lsa_jax.reporting import gallery


def draw(folder, name, image=None):
    figure, axis = plt.subplots(figsize=(6, 3))
    if image is None:
        axis.plot(np.linspace(0, 1, 50), np.sin(np.linspace(0, 7, 50)), "o-", label="a - b")
        axis.set_ylabel("an axis that is turned")
    else:
        axis.pcolormesh(image)
    for kind in ("svg", "png"):
        figure.savefig(folder / f"{name}.{kind}")
    plt.close(figure)


def numbers(svg):
    root = ElementTree.fromstring(svg)
    texts = [node.get(name, "") for node in root.iter() for name in ("d", "x", "y")]
    return np.array([float(n) for text in texts for n in re.findall(r"-?\d+\.?\d*", text)])


def test_a_shorter_drawing_is_the_same_to_a_hundredth_of_a_point(tmp_path):
    draw(tmp_path, "curve")
    before = (tmp_path / "curve.svg").read_text()
    after = gallery.shorter(before)
    assert len(after) < 0.9 * len(before) and "metadata" not in after
    assert re.findall(r'transform="[^"]*"', after) == re.findall(r'transform="[^"]*"', before)
    assert len(numbers(before)) > 150
    np.testing.assert_allclose(numbers(after), numbers(before), atol=0.0051)


def test_a_picture_is_smaller_only_where_its_bytes_are_too_many(tmp_path, monkeypatch):
    draw(tmp_path, "image", np.random.default_rng(0).normal(size=(60, 60)))
    whole = gallery.small_picture(tmp_path / "image")[1]

    def shown(limit):
        monkeypatch.setattr(gallery, "MOST_PICTURE_BYTES", limit)
        content = gallery.small_picture(tmp_path / "image")[1]
        assert len(content) <= limit
        return Image.open(io.BytesIO(content)).size

    assert shown(len(whole)) == (600, 300)
    width, height = shown(len(whole) // 2)
    assert 60 < width < 600 and width == pytest.approx(2 * height, abs=6)
