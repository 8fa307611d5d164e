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


def test_few_colours_keep_those_of_few_pixels_and_the_tint_of_large_areas(tmp_path):
    image = np.random.default_rng(0).uniform(0.7, 1, size=(60, 60))
    image[0, 0] = 0.0
    figure, axes = plt.subplots(1, 2, figsize=(6, 3))
    figure.colorbar(axes[0].pcolormesh(image, cmap="RdBu_r"))
    axes[1].axvspan(0.0, 1.0, color=(0.85, 0.91, 0.95))
    for kind in ("svg", "png"):
        figure.savefig(tmp_path / f"image.{kind}")
    plt.close(figure)
    ending, content = gallery.small_picture(tmp_path / "image")
    kept = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), int)
    drawn = np.asarray(Image.open(tmp_path / "image.png").convert("RGB"), int)
    assert ending == ".png" and kept.shape == drawn.shape
    off = np.abs(kept - drawn).max(axis=-1)
    assert off.max() < 25
    area = (drawn == np.round(255 * np.array([0.85, 0.91, 0.95]))).all(axis=-1)
    assert area.sum() > 10_000 and off[area].max() <= 1


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
