"""Pictures (JPEG, PNG and so on) in folders and zip archives, decoded on several threads."""

import io
import os
import zipfile
import zlib
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from PIL import Image

from lsa_jax.data._image_files import read_bytes
from lsa_jax.errors import InputError, MissingDataError

SUFFIXES = frozenset(".bmp .gif .jpeg .jpg .pgm .png .ppm .tif .tiff .webp".split())
_GREY, _COLOUR = ("1", "L"), ("LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")
# What Pillow raises on files that are not pictures, or are cut short.
_DAMAGE = (OSError, ValueError, SyntaxError, EOFError, zlib.error, Image.DecompressionBombError)


class FileTree(NamedTuple):
    """The files below a folder, or in an archive.

    Attributes:
        root: the folder or archive.
        names: paths of its files relative to the root, with slashes, sorted.
        read: `(name) -> contents`; may be called from several threads.
    """

    root: Path
    names: list[str]
    read: Callable[[str], bytes]

    def pictures(self, folder: str = "") -> list[str]:
        """Returns the names of the pictures in a folder, or everywhere, and in those below it."""
        prefix = f"{folder}/" if folder else ""
        return [name for name in self.names if name.startswith(prefix) and _is_picture(name)]

    def path(self, name: str) -> Path:
        """Returns what a file is called in messages."""
        return self.root / name


def _is_picture(name: str) -> bool:
    """Whether a file is taken for a picture: by its ending; hidden files are not."""
    hidden = any(part.startswith(".") for part in name.split("/"))
    return not hidden and os.path.splitext(name)[1].lower() in SUFFIXES


def folder_tree(root: Path) -> FileTree:
    """Returns the files below a folder; links to folders are followed.

    Raises:
        MissingDataError: there is no such folder.
    """
    if not root.is_dir():
        raise MissingDataError(f"{root} is not a folder; expected a folder of pictures")
    names = [
        (Path(folder) / name).relative_to(root).as_posix()
        for folder, _, files in os.walk(root, followlinks=True)
        for name in files
    ]
    return FileTree(root, sorted(names), lambda name: read_bytes(root / name))


def zip_tree(contents: bytes, root: Path, top: str) -> FileTree:
    """Returns the files of a zip archive below its folder `top`.

    Args:
        contents: the archive.
        root: its path, for messages.
        top: the folder in it that counts as the root of the tree.

    Raises:
        InputError: the archive is damaged; reading a damaged member of it raises this too.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(contents))
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise InputError(f"{root} is damaged; expected a whole zip archive: {error}") from None

    def read(name: str) -> bytes:
        try:
            return archive.read(f"{top}/{name}")
        except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError, zlib.error) as error:
            raise InputError(f"{root / name} is damaged: {error}") from None
        except RuntimeError as error:  # zipfile's word for a member that is encrypted
            raise InputError(
                f"{root / name} cannot be read: {error}; expected the archive as it is published"
            ) from None

    names = [
        name.removeprefix(f"{top}/")
        for name in archive.namelist()
        if name.startswith(f"{top}/") and not name.endswith("/")
    ]
    return FileTree(root, sorted(names), read)


def _decode(tree: FileTree, name: str, prepare: Callable[[Image.Image], Image.Image]) -> np.ndarray:
    """Returns one picture as bytes [height, width, 1 or 3]."""
    contents = tree.read(name)
    try:
        with Image.open(io.BytesIO(contents)) as image:
            mode = image.mode
            pixels = np.asarray(prepare(image))
    except _DAMAGE as error:
        reason = type(error).__name__  # Pillow's own words name a buffer in memory
        raise InputError(f"{tree.path(name)} cannot be read as a picture ({reason})") from None
    if mode not in _GREY + _COLOUR:
        raise InputError(f"{tree.path(name)} has pixels of kind {mode}; expected 8 bits a channel")
    return pixels.reshape(*pixels.shape[:2], -1)


def _plain(image: Image.Image) -> Image.Image:
    return image.convert("L" if image.mode in _GREY else "RGB")


def decode(
    tree: FileTree,
    names: list[str],
    prepare: Callable[[Image.Image], Image.Image] = _plain,
) -> Float[np.ndarray, "n h w c"]:
    """Returns pictures of one size, with pixels in [0, 1].

    One channel where every picture is grey, else three; transparency is dropped.

    Args:
        tree: where the pictures are.
        names: which, in order; at least one.
        prepare: turns an opened picture into a grey ("L") or colour ("RGB") one.

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
                f"{width} x {height}, as {tree.path(names[0])}"
            )
    channels = max(picture.shape[2] for picture in pixels)
    decoded = np.empty((len(pixels), height, width, channels), np.float32)
    for row, picture in zip(decoded, pixels, strict=True):
        row[:] = picture  # a grey picture among colour ones fills all three channels
    decoded /= 255
    return decoded


def centre_square(image: Image.Image, size: int) -> Image.Image:
    """Returns the largest square at the centre of a picture, in colour, resized to `size`."""
    # Large JPEGs are decoded at the smallest scale (1/2, 1/4, 1/8) that still holds the square.
    image.draft("RGB", (size, size))
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    square = (left, top, left + side, top + side)
    return image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box=square)


def photographs(
    directory: Path, size: int, synset: Collection[str] | None = None
) -> Float[np.ndarray, "m size size 3"]:
    """Returns the pictures below a folder as colour squares with pixels in [0, 1].

    Each is cut to the largest square at its centre, and resized by a bilinear filter that averages
    where it shrinks; one that has the size already is not altered. Sorted by path.

    Args:
        directory: folder of pictures, at any depth.
        size: side of the squares, in pixels.
        synset: WordNet ids (n00017222 and so on); takes just the pictures in folders of these
            names directly below `directory`, as ImageNet has them. None takes every picture.

    Raises:
        InputError: no such folder, no picture in it, or one that cannot be read.
    """
    if size < 1:
        raise InputError(f"size is {size}; accepted: 1 pixel or more")
    tree = folder_tree(Path(directory))
    names = tree.pictures()
    if not names:
        raise InputError(f"{directory} holds no pictures; expected {', '.join(sorted(SUFFIXES))}")
    if synset is not None:
        names = [name for name in names if name.split("/")[0] in synset]
    if not names:
        raise InputError(
            f"{directory} holds no pictures of the {len(synset)} classes that are wanted; expected "
            f"folders such as {min(synset)}"
        )
    return decode(tree, names, lambda image: centre_square(image, size))
