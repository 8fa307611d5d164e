"""The files of a folder or a zip archive, each known by the disk's own number of it."""

import io
import mimetypes
import os
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from PIL import Image

from lsa_jax.data._image_files import read_bytes
from lsa_jax.data.downloads import did_you_mean
from lsa_jax.errors import InputError, MissingDataError

# Pillow registers these, but has no decoder of its own for them.
_NO_DECODER = frozenset("BUFR EPS GRIB HDF5 MPEG PDF WMF".split())
# Left by systems and programs beside pictures; names that begin with a dot are hidden anyway.
_SYSTEM = frozenset(
    "@eadir @__thumb #recycle @recycle $recycle.bin __macosx __pycache__ lost+found "
    "desktop.ini ehthumbs.db thumbs.db".split()
) | {"system volume information", "icon\r"}
# Accompany pictures; anything else that cannot be read as a picture may have been meant as one.
_NO_PICTURES = frozenset(
    ".db .ini .ipynb .lnk .log .mat .pkl .py .sh .toml .url .yaml .yml".split()
)
# Links may lead from any class to any other: below so many folders, each folder counts once.
_CLASS_DEPTH = 4


class FileTree(NamedTuple):
    """The files below a folder, or in an archive.

    Attributes:
        root: the folder or archive.
        names: paths of its files relative to the root, with slashes, sorted; without hidden files
            and those of systems.
        read: `(name) -> contents`; may be called from several threads.
        folders: paths of its folders, likewise.
        numbers: device and number of each file on disk: equal for all links to one file.
        system: how many folders of each name were left out, as they are of systems.
    """

    root: Path
    names: list[str]
    read: Callable[[str], bytes]
    folders: list[str]
    numbers: Mapping[str, tuple[int, int]]
    system: Mapping[str, int]

    def pictures(self, folder: str = "") -> list[str]:
        """Returns the names of the pictures in a folder, or everywhere, and in those below it."""
        prefix, known = f"{folder}/" if folder else "", suffixes()
        return [n for n in self.names if n.startswith(prefix) and suffix(n) in known]

    def path(self, name: str) -> Path:
        """Returns what a file is called in messages."""
        return self.root / name

    def unreadable(self, folder: str = "") -> dict[str, int]:
        """Returns how many files of each suffix may be pictures that Pillow cannot read."""
        prefix, known = f"{folder}/" if folder else "", suffixes()
        names = [name for name in self.names if name.startswith(prefix)]
        return Counter(
            suffix(name) or "no suffix"
            for name in names
            if suffix(name) not in known and not _is_other(name)
        )


def suffixes() -> frozenset[str]:
    """Returns the suffixes, in lower case, of the pictures that Pillow can read here."""
    known = Image.registered_extensions()
    return frozenset(s for s, kind in known.items() if kind in Image.OPEN.keys() - _NO_DECODER)


def suffix(name: str) -> str:
    """Returns the suffix of a file's name in lower case, with its dot."""
    return PurePosixPath(name).suffix.lower()


def counted(counts: Mapping[str, int]) -> str:
    """Returns counts in words, as "3 .heic, 1 .avif"."""
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _is_other(name: str) -> bool:
    """Whether a file is text, a table, an archive or the like, by its name."""
    if not suffix(name):
        return PurePosixPath(name).name.isupper()  # README, LICENSE
    if suffix(name) in Image.registered_extensions():
        return False
    kind, packed = mimetypes.guess_type(PurePosixPath(name).name)
    if packed or suffix(name) in _NO_PICTURES:
        return True
    return kind is not None and kind.startswith(("text/", "application/"))


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in _SYSTEM


def _is_shown(name: str) -> bool:
    """Whether neither a file nor a folder that it is in is hidden or of a system."""
    return not any(_is_hidden(part) for part in name.split("/"))


def _number(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _entries(folder: Path) -> Iterable[tuple[str, os.stat_result | None]]:
    """Yields the names in a folder with what they are; None of a link that leads nowhere."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be read: {error.strerror}; accepted: folders that can be read"
        ) from None
    for entry in entries:
        try:
            yield entry.name, entry.stat()
        except OSError:
            yield entry.name, None


def folder_tree(root: Path) -> FileTree:
    """Returns the files below a folder; links to folders are followed, but not to one above.

    Raises:
        MissingDataError: there is no such folder.
        InputError: a folder in it cannot be read.
    """
    if not root.is_dir():
        near = did_you_mean(root.name, root.parent)
        raise MissingDataError(f"{root} is not a folder; {near or 'expected a folder of pictures'}")
    names, folders, numbers, system = [], [], {}, Counter()
    waiting = [("", frozenset({_number(root.stat())}))]
    seen: set[tuple[str, tuple[int, int]]] = set()
    while waiting:
        folder, above = waiting.pop()
        for own, status in _entries(root / folder):
            name = f"{folder}/{own}" if folder else own
            is_folder = status is not None and stat.S_ISDIR(status.st_mode)
            if _is_hidden(own):
                system.update([own] if is_folder and not own.startswith(".") else [])
            elif is_folder:
                number = _number(status)
                place = ("/".join(name.split("/")[:_CLASS_DEPTH]), number)
                if number not in above and place not in seen:
                    seen.add(place)
                    folders.append(name)
                    waiting.append((name, above | {number}))
            elif status is None or stat.S_ISREG(status.st_mode):
                names.append(name)  # reading a link that leads nowhere names it
                if status is not None and status.st_ino:
                    numbers[name] = _number(status)
    return FileTree(
        root,
        sorted(names),
        lambda name: read_bytes(root / name),
        sorted(folders),
        numbers,
        system,
    )


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

    inside = [n.removeprefix(f"{top}/") for n in archive.namelist() if n.startswith(f"{top}/")]
    names = [name for name in inside if not name.endswith("/") and _is_shown(name)]
    return FileTree(root, sorted(names), read, [], {}, {})
