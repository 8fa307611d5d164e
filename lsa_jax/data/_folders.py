"""Folders and archives of pictures: their files, and their division into splits and classes.

Recognised divisions, each also inside further folders that stand alone: CLASS/*; train/CLASS/* with
test/CLASS/*; CLASS/train/* with CLASS/test/*. Pictures in deeper folders belong to the class above
them. A folder that may be a split and fits none of these is refused, so that no split becomes a
class.
"""

import io
import mimetypes
import os
import re
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, NoReturn

from PIL import Image

from lsa_jax.data._image_files import read_bytes
from lsa_jax.data.downloads import did_you_mean
from lsa_jax.errors import InputError, MissingDataError

# Pillow registers these, but has no decoder of its own for them.
_NO_DECODER = frozenset("BUFR EPS GRIB HDF5 MPEG PDF WMF".split())
# Left by systems and programs; names that begin with a dot are hidden anyway.
_SYSTEM = frozenset(
    "@eadir @__thumb #recycle @recycle $recycle.bin __macosx __pycache__ lost+found "
    "desktop.ini ehthumbs.db thumbs.db".split()
) | {"system volume information", "icon\r"}
# Files that accompany pictures; any other file may be meant as a picture.
_NO_PICTURES = frozenset(
    ".db .ini .ipynb .lnk .log .mat .pkl .py .sh .toml .url .yaml .yml".split()
)


class FileTree(NamedTuple):
    """The files below a folder, or in an archive.

    Attributes:
        root: the folder or archive.
        names: paths of its files relative to the root, with slashes, sorted; without hidden and
            system files.
        read: `(name) -> contents`; may be called from several threads.
        folders: paths of its folders, likewise.
        numbers: device and number of each file on disk: equal for all links to one file.
    """

    root: Path
    names: list[str]
    read: Callable[[str], bytes]
    folders: list[str]
    numbers: Mapping[str, tuple[int, int]]

    def pictures(self, folder: str = "") -> list[str]:
        """Returns the names of the pictures in and below a folder; "" is the root."""
        prefix, known = f"{folder}/" if folder else "", suffixes()
        return [n for n in self.names if n.startswith(prefix) and suffix(n) in known]

    def once(self, names: list[str]) -> list[str]:
        """Returns names without further links to the same file."""
        first: dict[Any, str] = {}
        for name in names:
            first.setdefault(self.numbers.get(name, name), name)
        return list(first.values())

    def path(self, name: str) -> Path:
        """Returns a file's path for messages."""
        return self.root / name

    def unreadable(self, folder: str = "") -> dict[str, int]:
        """Returns counts by suffix of files that may be pictures but that Pillow cannot read."""
        prefix, known = f"{folder}/" if folder else "", suffixes()
        names = [name for name in self.names if name.startswith(prefix)]
        return Counter(
            suffix(name) or "no suffix"
            for name in names
            if suffix(name) not in known and not _is_other(name)
        )


def suffixes() -> frozenset[str]:
    """Returns the suffixes, in lower case, of the pictures that Pillow can read here."""
    known, readable = Image.registered_extensions(), Image.OPEN.keys() - _NO_DECODER
    return frozenset(s for s, kind in known.items() if kind in readable | {"MPO"})  # as a JPEG


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


def folder_tree(root: Path) -> FileTree:
    """Returns the files below a folder; follows links, except to folders above.

    Raises:
        MissingDataError: there is no such folder.
        InputError: a folder in it cannot be read.
    """
    if not root.is_dir():
        near = did_you_mean(root.name, root.parent)
        raise MissingDataError(f"{root} is not a folder; {near or 'expected a folder of pictures'}")

    def refuse(error: OSError) -> NoReturn:
        raise InputError(
            f"{error.filename} cannot be read: {error.strerror}; accepted: folders that can be read"
        ) from None

    names, folders, numbers = [], [], {}
    start = root.resolve()
    above = {str(root): {start, *start.parents}}  # by folder: itself and those it was reached from
    for folder, inside, files in os.walk(root, onerror=refuse, followlinks=True):
        below, known = Path(folder).relative_to(root), above.pop(folder)
        places = {own: Path(folder, own).resolve() for own in inside if not _is_hidden(own)}
        inside[:] = [own for own, place in places.items() if place not in known]
        above |= {os.path.join(folder, own): known | {places[own]} for own in inside}
        folders += [(below / own).as_posix() for own in inside]
        for own in filter(lambda own: not _is_hidden(own), files):
            name, path = (below / own).as_posix(), Path(folder, own)
            if path.is_file():
                status = path.stat()
                numbers[name] = status.st_dev, status.st_ino or name
            if path.is_file() or not path.exists():  # reading a broken link raises an error
                names.append(name)
    return FileTree(root, sorted(names), lambda n: read_bytes(root / n), sorted(folders), numbers)


def zip_tree(contents: bytes, root: Path, top: str) -> FileTree:
    """Returns the files of a zip archive below its folder `top`; its path is for messages.

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
        except RuntimeError as error:  # zipfile raises it for an encrypted member
            raise InputError(
                f"{root / name} cannot be read: {error}; expected the archive as it is published"
            ) from None

    inside = [n.removeprefix(f"{top}/") for n in archive.namelist() if n.startswith(f"{top}/")]
    files = [name for name in inside if not name.endswith("/")]
    names = [name for name in files if not any(map(_is_hidden, name.split("/")))]
    return FileTree(root, sorted(names), read, [], {})


# --- splits and classes -------------------------------------------------------------------------

# Names of pictures by class, in the order of the labels.
Classes = dict[str, list[str]]

_SPLITS = {
    "train": "train training trained trn",
    "test": "test testing tests tst eval evaluation",
    "validation": "validation valid validate val dev devel development",
}
_SPLIT_OF = {word: split for split, words in _SPLITS.items() for word in words.split()}
# Words that accompany the name of a split: training_set, seg_train, TestImages.
_AROUND = frozenset("set sets data dataset images image imgs img split seg folder part".split())
_ACCEPTED = "accepted: one folder a class, or train/ and test/ with the same class folders"


class Layout(NamedTuple):
    """The training and test pictures of a folder by the same classes, and remarks.

    Without splits all pictures are training pictures, and the test set is None. Remarks are on
    folders and pictures that are left out.
    """

    train: Classes
    test: Classes | None
    remarks: list[str]


def split_of(folder: str) -> str | None:
    """Returns the split that a folder's name means: "train", "test", "validation" or None."""
    for words in (folder, re.sub(r"(?<=[a-z])(?=[A-Z])", " ", folder)):
        parts = [part for part in re.split(r"[\W_\d]+", words.casefold()) if part]
        left = [part for part in parts if part not in _AROUND]
        alone = re.sub(r"(set|data|images)$", "", left[0]) if len(left) == 1 else ""
        if alone in _SPLIT_OF:
            return _SPLIT_OF[alone]
    return None


def _below(name: str, base: str) -> list[str]:
    """Returns the parts of a picture's path below a folder."""
    return name[len(base) + 1 if base else 0 :].split("/")


def _join(base: str, folder: str) -> str:
    return f"{base}/{folder}" if base else folder


def _descend(names: list[str], base: str, *, in_split: bool = False) -> str:
    """Returns the folder that divides the pictures, below folders with a single folder inside."""
    while True:
        tops = {_below(name, base)[0] for name in names}
        if len(tops) != 1 or any(len(_below(name, base)) < 3 for name in names):
            return base
        (top,) = tops
        if split_of(top) and not in_split:
            return base
        base = _join(base, top)


def _classes(tree: FileTree, parts: Mapping[str, list[str]]) -> Classes:
    """Returns pictures by the NFC name of their class, the first part of each.

    Raises:
        InputError: a picture is in no class, or in a folder below it that names a split.
    """
    classes: Classes = {}
    for name, (*folders, _) in parts.items():
        if not folders:
            raise InputError(f"{tree.path(name)} lies in no class; expected one folder a class")
        if split := next(filter(split_of, folders[1:]), None):
            raise InputError(
                f"{tree.path(name)} is below a class and in a folder {split}, which names a split; "
                f"{_ACCEPTED}"
            )
        classes.setdefault(unicodedata.normalize("NFC", folders[0]), []).append(name)
    return dict(sorted(classes.items()))


def _empty(tree: FileTree, base: str) -> list[str]:
    """Returns a remark on class folders without any picture.

    Raises:
        InputError: one has files, and none of them can be read as a picture.
    """
    empty = []
    for folder in tree.folders:
        parts = _below(folder, base)
        if not folder.startswith(_join(base, "")) or len(parts) != 1 or tree.pictures(folder):
            continue
        if unreadable := tree.unreadable(folder):
            raise InputError(
                f"{tree.path(folder)} has no picture that can be read ({counted(unreadable)}); "
                "accepted: classes of PNG or JPEG files and others that Pillow reads, or without "
                "this folder"
            )
        empty.append(parts[0])
    return [f"folders without pictures: {', '.join(empty)}"] if empty else []


def _chosen(tree: FileTree, base: str, folders: list[str]) -> tuple[tuple[str, str], list[str]]:
    """Returns the training and the test folder, and remarks; `folders` has one for each picture.

    Without a test folder the validation folder takes its place.

    Raises:
        InputError: one of the two is missing, or there are two of it.
    """
    counts, found = Counter(folders), {}
    for folder in counts:
        found.setdefault(split_of(folder), []).append(folder)
    test = "test" if "test" in found else "validation"
    for split in ("train", test):
        if len(found.get(split, [])) > 1:
            raise InputError(
                f"{tree.path(base)} has the folders {' and '.join(found[split])}, both for "
                f"{split}; accepted: one"
            )
    if "train" not in found or test not in found:
        folder = next(held[0] for split, held in found.items() if split)
        raise InputError(
            f"{tree.path(base)} has a folder {folder}; expected both train and test, or another "
            f"name where {folder} is a class"
        )
    chosen = found["train"][0], found[test][0]
    remarks = []
    if test == "validation":
        remarks.append(f"{chosen[1]} is the test set, as there is no other")
    if left := {f"in {folder}": counts[folder] for folder in counts.keys() - {*chosen}}:
        remarks.append(f"pictures of neither training nor test: {counted(left)}")
    return chosen, remarks


def _refuse_unknown_splits(tree: FileTree, base: str, parts: Mapping[str, list[str]]) -> None:
    """Raises where all folders hold the same folders: they may be splits of another name."""
    inner: dict[str, set[str | None]] = {}
    for own in parts.values():
        inner.setdefault(own[0], set()).add(own[1] if len(own) > 2 else None)
    first, *others = list(inner.values()) or [set()]
    if others and len(first) > 1 and None not in first and all(held == first for held in others):
        raise InputError(
            f"{tree.path(base)} has the folders {', '.join(inner)}, each with the same folders "
            f"{', '.join(sorted(filter(None, first)))}; {_ACCEPTED}"
        )


def layout(tree: FileTree) -> Layout:
    """Returns the classes of a folder of pictures, split by split, each picture once.

    Raises:
        InputError: fewer than two classes, other classes in one of the splits, a picture outside
            all classes or in two of them, a class without a readable picture, or an unknown
            division that may be into splits.
    """
    names = tree.pictures()
    base = _descend(names, "")
    parts = {name: _below(name, base) for name in names}
    deep = ((at, own[at]) for at in (0, 1) for own in parts.values() if len(own) > at + 1)
    level = next((at for at, folder in deep if split_of(folder)), None)
    if level is None:
        _refuse_unknown_splits(tree, base, parts)
        sides, remarks = [_classes(tree, parts)], _empty(tree, base) if names else []
    else:
        folders = {n: own[level] if own[level + 1 :] else "no folder" for n, own in parts.items()}
        chosen, remarks = _chosen(tree, base, list(folders.values()))
        sides = []
        for folder in chosen:
            inside, top = [name for name in names if folders[name] == folder], base
            if level == 0:
                top = _descend(inside, _join(base, folder), in_split=True)
                remarks += _empty(tree, top)
            below = {name: _below(name, top) for name in inside}
            if level == 1:
                below = {name: [own[0], *own[2:]] for name, own in below.items()}
            sides.append(_classes(tree, below))
        remarks += _empty(tree, base) if level == 1 else []
    _check_classes(tree, base, sides)
    if links := _remove_links(tree, sides):
        remarks.append(f"{links} further links to the same pictures left out")
    return Layout(sides[0], sides[1] if sides[1:] else None, remarks)


def _check_classes(tree: FileTree, base: str, sides: list[Classes]) -> None:
    """Raises unless the splits have the same classes, two or more."""
    for classes in sides:
        if len(classes) < 2:
            skipped = f" (left out: {counted(tree.unreadable())})" if tree.unreadable() else ""
            raise InputError(
                f"{tree.path(base)} has class folders with pictures: "
                f"{', '.join(classes) or 'none'}; expected two or more{skipped}"
            )
    if differing := sorted(sides[0].keys() ^ sides[-1].keys()):
        raise InputError(
            f"{tree.root} has class {differing[0]} in only one of train and test; "
            "expected the same classes in both"
        )


def _remove_links(tree: FileTree, sides: list[Classes]) -> int:
    """Removes further links to the same picture of a class; returns their number.

    Raises:
        InputError: links in two classes or splits lead to one file.
    """
    owners: dict[Any, tuple[tuple[int, str], str]] = {}
    links = 0
    for side, classes in enumerate(sides):
        for class_name, names in classes.items():
            classes[class_name] = tree.once(names)
            links += len(names) - len(classes[class_name])
            for name in classes[class_name]:
                own = (side, class_name), name
                place, first = owners.setdefault(tree.numbers.get(name, name), own)
                if place != own[0]:
                    kinds = "splits" if place[1] == class_name else "classes"
                    raise InputError(
                        f"{tree.path(first)} and {tree.path(name)} are one file in two {kinds}; "
                        "accepted: each picture in one"
                    )
    return links
