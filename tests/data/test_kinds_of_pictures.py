"""Pictures of every kind, and folders of every layout: right as Pillow and NumPy have them."""

import os

import numpy as np
import pytest
from PIL import Image

from lsa_jax import data
from lsa_jax.data import PictureWarning
from lsa_jax.errors import InputError

SIDE = 6


def noise(height=SIDE, width=SIDE, channels=3, seed=0):
    shape = (height, width, channels) if channels else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)


def on_white(rgba):
    colour, alpha = rgba[..., :-1].astype(np.float64), rgba[..., -1:] / 255
    return colour * alpha + 255 * (1 - alpha)


def add(root, *names, shape=(SIDE, SIDE), start=0):
    """Saves a picture of its own by each name; returns how many there are."""
    for seed, name in enumerate(names, start):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(*shape, seed=seed)).save(root / name)
    return len(names)


def read_folder(path, side=SIDE):
    """Returns the test picture of a class; another picture of it and another class are added."""
    others = (f"other/{i}.png" for i in range(5))
    add(path.parents[1], f"{path.parent.name}/~.png", *others, shape=(side, side), start=10)
    return data.load(path.parents[1].name, path.parents[2]).test.inputs[0]


def read_photographs(path, side=SIDE):
    return data.photographs(path.parent, side)[0]


READERS = {"folder": read_folder, "photographs": read_photographs}


def palette(path):
    image = Image.fromarray(noise()).quantize(16)
    image.save(path)
    return np.asarray(image.convert("RGB"))


def one_transparent_colour(path):
    pixels = noise()
    pixels[:3] = (10, 20, 30)
    Image.fromarray(pixels).save(path, transparency=(10, 20, 30))
    return np.where((pixels == (10, 20, 30)).all(-1, keepdims=True), 255, pixels)


def animation(path):
    frames = [Image.fromarray(noise(seed=seed)) for seed in (1, 2)]
    frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True)
    return np.asarray(frames[0])


def two_views(path):
    image = Image.new("RGB", (SIDE, SIDE), (128, 128, 128))  # JPEG keeps one grey as it is
    image.save(path, save_all=True, append_images=[Image.fromarray(noise())])
    return np.asarray(image)


def by(mode, expected=lambda pixels: pixels):
    channels = {"L": 0, "LA": 2, "RGBA": 4, "RGB": 3, "CMYK": 4}[mode]

    def save(path):
        pixels = noise(channels=channels)
        image = Image.fromarray(pixels)
        assert image.mode == mode or mode == "CMYK"
        if mode == "CMYK":
            image = Image.frombytes("CMYK", (SIDE, SIDE), pixels.tobytes())
            image.save(path)
            return np.asarray(image.convert("RGB"))
        image.save(path)
        return expected(pixels)

    return save


KINDS = {
    "grey.png": by("L"),
    "colour.PNG": by("RGB"),
    "print.tiff": by("CMYK"),
    "alpha.png": by("RGBA", on_white),
    "palette.gif": palette,
    "one_colour.png": one_transparent_colour,
    "animation.webp": animation,
    "camera.mpo": two_views,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_those_that_were_saved(kind, reader, tmp_path):
    path = tmp_path / "set" / "a" / kind
    path.parent.mkdir(parents=True)
    expected = np.asarray(KINDS[kind](path), np.float64) / 255
    expected = np.broadcast_to(expected.reshape(SIDE, SIDE, -1), (SIDE, SIDE, 3))
    np.testing.assert_allclose(READERS[reader](path), expected, atol=1.01 / 255)


@pytest.mark.parametrize("suffix", ["jpg", "png"])
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("reader", READERS)
def test_pictures_are_upright(orientation, suffix, reader, tmp_path):
    path = tmp_path / "set" / "a" / f"x.{suffix}"
    path.parent.mkdir(parents=True)
    stored = np.zeros((16, 16, 3), np.uint8)
    stored[:8], stored[:8, :8] = 100, 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(stored).save(path, exif=exif, quality=95)
    # EXIF 2.32, tag 0x0112: where the first row and the first column are seen.
    turned = np.rot90(stored, {3: 2, 4: 2, 5: 3, 6: 3, 7: 1, 8: 1}.get(orientation, 0))
    expected = turned[:, ::-1] if orientation in (2, 4, 5, 7) else turned
    np.testing.assert_allclose(READERS[reader](path, 16), expected / 255, atol=0.03)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["I;16", "F"])
def test_more_than_8_bits_are_refused(kind, reader, tmp_path):
    path = tmp_path / "set" / "a" / "x.tiff"
    path.parent.mkdir(parents=True)
    types = {"I;16": np.uint16, "F": np.float32, "I": np.int32}
    Image.fromarray(np.full((SIDE, SIDE), 40, types[kind])).save(path)
    with pytest.raises(InputError, match=f"x.tiff has pixels of kind {kind}"):
        READERS[reader](path)


CLASSES = ("cat", "dog")


def names(pattern, count):
    return [f"{pattern.format(c)}/{i}.png" for c in CLASSES for i in range(count)]


LAYOUTS = {
    "plain": ("{}", None),
    "train, test": ("train/{}", "test/{}"),
    "training_set, test_set": ("training_set/training_set/{}", "test_set/test_set/{}"),
    "seg_train, seg_test": ("seg_train/seg_train/{}", "seg_test/seg_test/{}"),
    "train2017, val2017": ("train2017/{}", "val2017/{}"),
    "class first": ("{}/train", "{}/test"),
    "deeper": ("train/{}/2020/may", "test/{}"),
}


@pytest.mark.filterwarnings("ignore::lsa_jax.data.PictureWarning")
@pytest.mark.parametrize("name", LAYOUTS)
def test_splits_are_recognised_by_their_names(name, tmp_path):
    train, test = LAYOUTS[name]
    add(tmp_path / "set", *names(train, 5))
    if test is not None:
        add(tmp_path / "set", *names(test, 2), start=100)
    image_set = data.load("set", tmp_path)
    assert image_set.class_names == CLASSES
    held = [len(image_set.train.targets), len(image_set.test.targets)]
    assert held == ([10, 4] if test else [8, 2])
    if test:
        expected = [noise(seed=seed) / np.float32(255) for seed in range(100, 104)]
        np.testing.assert_array_equal(image_set.test.inputs, expected)


def test_classes_without_test_pictures_are_counted_in_a_warning(tmp_path):
    add(tmp_path / "set", *names("{}", 6), "emu/0.png", "emu/1.png", "emu/2.png")
    with pytest.warns(PictureWarning, match="no test pictures of emu"):
        tested = data.load("set", tmp_path).test.targets
    assert sorted(set(tested)) == [0, 1]


UNCLEAR = {
    "two for training": [*names("train/{}", 2), *names("Training/{}", 2), *names("test/{}", 2)],
    "no test": [*names("training/{}", 2)],
    "unknown names": [*names("part1/{}", 2), *names("part2/{}", 2)],
    "splits below classes": [*names("{}/x/train", 2), *names("{}/x/test", 2)],
    "no picture": [],
}


@pytest.mark.parametrize("case", UNCLEAR)
def test_what_may_be_a_split_is_no_class(case, tmp_path):
    (tmp_path / "set").mkdir()
    add(tmp_path / "set", *UNCLEAR[case])
    with pytest.raises(InputError, match=str(tmp_path)) as refused:
        data.load("set", tmp_path)
    assert "\n" not in str(refused.value)


def test_files_of_systems_are_no_pictures(tmp_path):
    add(tmp_path / "set", *names("{}", 5))
    add(tmp_path / "set", "cat/@eaDir/0.png", "__MACOSX/cat/0.png", ".ipynb_checkpoints/0.png")
    add(tmp_path / "set", "lost+found/0.png", "cat/.hidden.png")
    for name in (".DS_Store", "cat/Thumbs.db", "README", "labels.csv", "dog/notes.txt"):
        (tmp_path / "set" / name).write_text("x")
    assert len(data.load("set", tmp_path).train.inputs) == 8
    assert len(photographs(tmp_path)) == 10


def photographs(tmp_path):
    return data.photographs(tmp_path / "set", SIDE)


def test_a_picture_counts_once_whatever_links_lead_to_it(tmp_path):
    folder = tmp_path / "set"
    add(folder, *names("{}", 5))
    (folder / "cat/up").symlink_to("..")
    (folder / "cat/self").symlink_to("../cat")
    assert len(data.load("set", tmp_path).train.inputs) == 8
    assert len(photographs(tmp_path)) == 10
    (folder / "cat/again.png").symlink_to("0.png")
    os.link(folder / "dog/1.png", folder / "dog/hard.png")
    with pytest.warns(PictureWarning, match="2 further links"):
        assert len(data.load("set", tmp_path).train.inputs) == 8
    assert len(photographs(tmp_path)) == 10


def test_folders_that_link_to_one_another_are_entered_once_a_path(tmp_path):
    folder = tmp_path / "set"
    add(folder, *names("{}", 5))
    for one, other in ("ab", "ba"):
        add(folder, f"cat/{one}/5.png", start=ord(one))
        (folder / "cat" / one / other).symlink_to(f"../{other}")
    with pytest.warns(PictureWarning, match=r"\b2 further links"):
        data.load("set", tmp_path)


@pytest.mark.parametrize("link", ["file", "folder", "hard link"])
@pytest.mark.parametrize("splits", [False, True])
def test_a_picture_in_two_classes_or_splits_is_refused(link, splits, tmp_path):
    folder = tmp_path / "set"
    if splits:
        add(folder, *names("train/{}", 5), *names("test/{}", 5))
    else:
        add(folder, *names("{}", 5))
    one, two = ("train/cat", "test/cat") if splits else ("cat", "dog")
    if link == "folder":
        (folder / two / "more").symlink_to(folder / one)
    elif link == "file":
        (folder / two / "9.png").symlink_to(folder / one / "3.png")
    else:
        os.link(folder / one / "3.png", folder / two / "9.png")
    with pytest.raises(InputError, match=f"{one}/.*{two}/.* one file in two"):
        data.load("set", tmp_path)


def test_a_class_whose_only_picture_would_be_a_test_picture_is_refused(tmp_path):
    add(tmp_path / "set", "cat/0.png", *names("dog", 5))
    with pytest.raises(InputError, match="one picture of cat.*two of each class"):
        data.load("set", tmp_path)
    add(tmp_path / "set", "cat/1.png", start=20)
    assert set(data.load("set", tmp_path).train.targets) == {0, 1}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", ["", None, 3, ["mnist"]])
def test_a_data_set_has_a_name(name, tmp_path):
    add(tmp_path, *names("{}", 5))  # an empty name is not the data folder itself
    with pytest.raises(InputError, match="name is "):
        data.load(name, tmp_path)
    with pytest.raises(InputError, match="name is "):
        data.load_folder(name, tmp_path)
