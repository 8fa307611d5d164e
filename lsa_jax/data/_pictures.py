"""Pictures (JPEG, PNG and so on) in folders and archives, decoded upright on several threads."""

import functools
import io
import warnings
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageOps

from lsa_jax.data import resizing
from lsa_jax.data._file_trees import FileTree, counted, folder_tree
from lsa_jax.errors import InputError

_GREY = ("1", "L", "LA")
_COLOUR = ("P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")


class PictureWarning(UserWarning):
    """Pictures were read, but not from all files, or some are both trained and tested on."""


def warn(directory: Path, remarks: list[str]) -> None:
    """Warns in one line about the files of a folder that were left out, if there are any."""
    if remarks:
        warnings.warn(f"{directory}: {'; '.join(remarks)}", PictureWarning, stacklevel=3)


def left_out(tree: FileTree) -> list[str]:
    """Returns remarks on the files and folders of a tree that are not read as pictures."""
    remarks = []
    if unreadable := tree.unreadable():
        remarks.append(f"files left out that Pillow cannot read: {counted(unreadable)}")
    if tree.system:
        remarks.append(f"folders of systems left out: {counted(tree.system)}")
    return remarks


def once(tree: FileTree, names: list[str]) -> list[str]:
    """Returns names of pictures without further links to one that came before."""
    first = {tree.numbers.get(name, name): name for name in reversed(names)}
    return [name for name in names if first[tree.numbers.get(name, name)] == name]


def _upright(image: Image.Image) -> Image.Image:
    """Returns a picture as its EXIF orientation asks for, on white where it is transparent."""
    grey = image.mode in _GREY
    image = ImageOps.exif_transpose(image)
    if "transparency" in image.info or image.mode in ("LA", "PA", "RGBA"):
        shown = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown)
    return image.convert("L" if grey else "RGB")


def _decode(tree: FileTree, name: str, prepare: Callable[[Image.Image], np.ndarray]) -> np.ndarray:
    """Returns one picture [height, width, 1 or 3]."""
    contents = tree.read(name)
    try:
        with Image.open(io.BytesIO(contents)) as image:
            mode = image.mode
            pixels = prepare(image) if mode in _GREY + _COLOUR else None
    except Exception as error:  # damaged files raise errors of every kind from inside Pillow
        reason = type(error).__name__  # Pillow's own words name a buffer in memory
        raise InputError(f"{tree.path(name)} cannot be read as a picture ({reason})") from None
    if pixels is None:
        raise InputError(f"{tree.path(name)} has pixels of kind {mode}; expected 8 bits a channel")
    return pixels.reshape(*pixels.shape[:2], -1)


def _as_it_is(image: Image.Image) -> np.ndarray:
    return np.asarray(_upright(image))


def in_colour(image: Image.Image) -> np.ndarray:
    """Returns the pixels of an opened picture [h, w, 3], whatever its kind."""
    return np.asarray(_upright(image).convert("RGB"))


def _as_square(image: Image.Image, size: int, fit: str) -> np.ndarray:
    """Returns a picture as a square of a size, by `resizing.resize`."""
    # Large JPEGs are decoded at the smallest scale (1/2, 1/4, 1/8) with twice the pixels needed.
    image.draft("RGB", (2 * size, 2 * size))
    pixels = np.asarray(_upright(image))
    pixels = resizing.square(pixels.reshape(*pixels.shape[:2], -1), fit)
    if pixels.shape[:2] == (size, size):
        return pixels
    return resizing.resize_one(pixels.astype(np.float32), size)


def decode(
    tree: FileTree,
    names: list[str],
    prepare: Callable[[Image.Image], np.ndarray] = _as_it_is,
) -> Float[np.ndarray, "n h w c"]:
    """Returns pictures of one size, with pixels in [0, 1].

    Upright by their EXIF orientation; the first frame of an animation; transparent pixels on white.
    One channel where every picture is grey, else three.

    Args:
        tree: where the pictures are.
        names: which, in order; at least one.
        prepare: turns an opened picture into an array [h, w] or [h, w, c] with pixels to 255.

    Raises:
        InputError: a picture cannot be read, or differs from the first in size.
    """
    with ThreadPoolExecutor() as executor:
        pixels = list(executor.map(lambda name: _decode(tree, name, prepare), names))
    height, width = pixels[0].shape[:2]
    for name, picture in zip(names, pixels, strict=True):
        if picture.shape[:2] != (height, width):
            raise InputError(
                f"{tree.path(name)} has {picture.shape[1]} x {picture.shape[0]} pixels; expected "
                f"{width} x {height}, as {tree.path(names[0])}; load_folder(..., size=32) and "
                "config.data.image_size bring pictures to one size"
            )
    channels = max(picture.shape[2] for picture in pixels)
    decoded = np.empty((len(pixels), height, width, channels), np.float32)
    for row, picture in zip(decoded, pixels, strict=True):
        row[:] = picture  # a grey picture among colour ones fills all three channels
    decoded /= 255
    return decoded


def decode_squares(
    tree: FileTree, names: list[str], size: int, fit: str
) -> Float[np.ndarray, "n size size c"]:
    """Returns pictures of any sizes as squares, with pixels in [0, 1]; see `resizing.resize`."""
    return decode(tree, names, functools.partial(_as_square, size=size, fit=fit))


def _photograph(image: Image.Image, size: int, fit: str) -> np.ndarray:
    """Returns a picture as a square in colour, by Pillow's bilinear filter."""
    # Large JPEGs are decoded at the smallest scale (1/2, 1/4, 1/8) that still holds the square.
    image.draft("RGB", (size, size))
    pixels = resizing.square(in_colour(image), fit)
    shown = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(shown.resize((size, size), Image.Resampling.BILINEAR))


def photographs(
    directory: Path, size: int, synset: Collection[str] | None = None, *, fit: str = "crop"
) -> Float[np.ndarray, "m size size 3"]:
    """Returns the pictures below a folder as colour squares with pixels in [0, 1].

    Each is made upright and square, and resized by a bilinear filter that averages where it
    shrinks; one that has the size already is not altered. Sorted by path, each file once, whatever
    links lead to it. Transparent pixels are on white.

    Args:
        directory: folder of pictures, at any depth.
        size: side of the squares, in pixels.
        synset: WordNet ids (n00017222 and so on); takes just the pictures in folders of these
            names directly below `directory`, as ImageNet has them. None takes every picture.
        fit: "crop" takes the largest square at a picture's centre, "pad" adds black on both sides,
            "squash" changes its proportions.

    Raises:
        InputError: no such folder, no picture in it, or one that cannot be read.

    Warns:
        PictureWarning: files were left out that may be pictures, with their number.
    """
    resizing.check(size, fit)
    tree = folder_tree(Path(directory).expanduser())
    names = tree.pictures()
    if not names:
        skipped = f" (left out: {counted(tree.unreadable())})" if tree.unreadable() else ""
        raise InputError(
            f"{directory} holds no pictures{skipped}; expected .jpg, .png and others of Pillow"
        )
    if synset is not None:
        names = [name for name in names if name.split("/")[0] in synset]
    if not names:
        raise InputError(
            f"{directory} holds no pictures of the {len(synset)} classes that are wanted; expected "
            f"folders such as {min(synset)}"
        )
    warn(directory, left_out(tree))
    return decode(tree, once(tree, names), functools.partial(_photograph, size=size, fit=fit))
