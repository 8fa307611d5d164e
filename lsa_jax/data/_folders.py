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
import stat
import unicodedata
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
# Left by systems and programs; names that begin with a dot are hidden anyway.
_SYSTEM = frozenset(
    "@eadir @__thumb #recycle @recycle $recycle.bin __macosx __pycache__ lost+found "
    "desktop.ini ehthumbs.db thumbs.db".split()
) | {"system volume information", "icon\r"}
# Files that accompany pictures; any other file may be meant as a picture.
_NO_PICTURES = frozenset(
    ".db .ini .ipynb .lnk .log .mat .pkl .py .sh .toml .url .yaml .yml".split()
)
# Links may lead from any class to any other: below so many folders, each folder counts once.
_CLASS_DEPTH = 4


class FileTree(NamedTuple):
    """The files below a folder, or in an archive.

    Attributes:
        root: the folder or archive.
        names: paths of its files relative to the root, with slashes, sorted; without hidden and
            system files.
        read: `(name) -> contents`; may be called from several threads.
        folders: paths of its folders, likewise.
        numbers: device and number of each file on disk: equal for all links to one file.
        system: number of system folders of each name, which are left out.
    """

    root: Path
    names: list[str]
    read: Callable[[str], bytes]
    folders: list[str]
    numbers: Mapping[str, tuple[int, int]]
    system: Mapping[str, int]

    def pictures(self, folder: str = "") -> list[str]:
        """Returns the names of the pictures in and below a folder; "" is the root."""
        prefix, known = f"{folder}/" if folder else "", suffixes()
        return [n for n in self.names if n.startswith(prefix) and suffix(n) in known]

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
    """Yields the names in a folder with their status; None for a broken link."""
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
    """Returns the files below a folder; follows links, except to folders above.

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
                names.append(name)  # reading a broken link raises an error with its name
                if status is not None and status.st_ino:
                    numbers[name] = _number(status)
    return FileTree(
        root, sorted(names), lambda name: read_bytes(root / name), sorted(folders), numbers, system
    )


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
    names = [name for name in inside if not name.endswith("/") and _is_shown(name)]
    return FileTree(root, sorted(names), read, [], {}, {})


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


def _second(name: str, base: str) -> str | None:
    """Returns the second folder of a picture's path below a folder, if it is in two."""
    parts = _below(name, base)
    return parts[1] if len(parts) > 2 else None


def _join(base: str, folder: str) -> str:
    return f"{base}/{folder}" if base else folder


def _descend(names: list[str], base: str, *, in_split: bool = False) -> str:
    """Returns the folder that divides the pictures, below folders with a single folder inside."""
    while True:
        tops = {_below(name, base)[0] for name in names}
        if len(tops) != 1 or any(_second(name, base) is None for name in names):
            return base
        (top,) = tops
        if split_of(top) and not in_split:
            return base
        base = _join(base, top)


def _classes(tree: FileTree, names: list[str], base: str, depth: int = 0) -> Classes:
    """Returns pictures by the NFC name of their folder at a depth below a base."""
    classes: Classes = {}
    for name in names:
        parts = _below(name, base)
        if len(parts) < depth + 2:
            raise InputError(f"{tree.path(name)} lies in no class; expected one folder a class")
        classes.setdefault(unicodedata.normalize("NFC", parts[depth]), []).append(name)
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


def _refuse_deeper(tree: FileTree, classes: Classes, base: str, known: int) -> None:
    """Refuses a train or test folder nested below the folders of the classes."""
    for names in classes.values():
        for name in names:
            for part in _below(name, base)[known:-1]:
                if split_of(part):
                    raise InputError(
                        f"{tree.path(name)} is below a class and in a folder {part}, which names "
                        f"a split; {_ACCEPTED}"
                    )


def _chosen(tree: FileTree, found: Mapping[str, list[str]], where: str) -> tuple[str, str]:
    """Returns the training folder and the test folder; without a test folder the validation one."""
    test = "test" if "test" in found else "validation"
    for split in ("train", test):
        if len(found.get(split, [])) > 1:
            raise InputError(
                f"{tree.path(where)} has the folders {' and '.join(found[split])}, both for "
                f"{split}; accepted: one"
            )
    if "train" not in found or test not in found:
        (folder, *_) = next(iter(found.values()))
        raise InputError(
            f"{tree.path(where)} has a folder {folder}; expected both train and test, or another "
            f"name where {folder} is a class"
        )
    return found["train"][0], found[test][0]


def _by_split(tree: FileTree, base: str, names: list[str], found: dict[str, list[str]]) -> Layout:
    """Returns the classes of a folder with train/CLASS/* and test/CLASS/*."""
    parts = _chosen(tree, found, base)
    remarks, sides = [], []
    for folder in parts:
        inside = [name for name in names if _below(name, base)[0] == folder]
        top = _descend(inside, _join(base, folder), in_split=True)
        sides.append(_classes(tree, inside, top))
        _refuse_deeper(tree, sides[-1], top, 1)
        remarks += _empty(tree, top)
    if "test" not in found:
        remarks.append(f"{parts[1]} is the test set, as there is no other")
    tops = [_below(name, base) for name in names]
    others = Counter(top[0] if len(top) > 1 else "no folder" for top in tops)
    return Layout(*sides, remarks + _left_out(others, parts))


def _left_out(counts: Mapping[str, int], used: tuple[str, ...]) -> list[str]:
    """Returns a remark on the pictures of folders that are not used."""
    left = {f"in {folder}": count for folder, count in counts.items() if folder not in used}
    return [f"pictures of neither training nor test: {counted(left)}"] if left else []


def _by_class(tree: FileTree, base: str, names: list[str]) -> Layout:
    """Returns the classes of a folder with CLASS/train/* and CLASS/test/*."""
    everything = _classes(tree, names, base)
    train: Classes = {}
    test: Classes = {}
    remarks = _empty(tree, base)
    for class_name, pictures in everything.items():
        inside: dict[str, list[str]] = {}
        found: dict[str, list[str]] = {}
        for name in pictures:
            folder = _second(name, base) or ""
            split = split_of(folder)
            if split is None or len(_below(name, base)) > 3:
                raise InputError(
                    f"{tree.path(name)} is not directly in the train/ or test/ of a class, unlike "
                    f"others below {tree.path(base)}; {_ACCEPTED}"
                )
            if folder not in inside:
                found.setdefault(split, []).append(folder)
            inside.setdefault(folder, []).append(name)
        chosen = _chosen(tree, found, _join(base, class_name))
        train[class_name], test[class_name] = (inside[folder] for folder in chosen)
        if "test" not in found:
            remarks.append(f"{class_name}/{chosen[1]} is tested on, as there is no other test set")
        counts = {f"{class_name}/{folder}": len(held) for folder, held in inside.items()}
        remarks += _left_out(counts, tuple(f"{class_name}/{folder}" for folder in chosen))
    return Layout(train, test, remarks)


def _refuse_unknown_splits(tree: FileTree, base: str, names: list[str]) -> None:
    """Raises where all folders hold the same folders: they may be splits of another name."""
    inner: dict[str, set[str | None]] = {}
    for name in names:
        inner.setdefault(_below(name, base)[0], set()).add(_second(name, base))
    first, *others = list(inner.values()) or [set()]
    if others and len(first) > 1 and None not in first and all(held == first for held in others):
        raise InputError(
            f"{tree.path(base)} has the folders {', '.join(inner)}, each with the same folders "
            f"{', '.join(sorted(filter(None, first)))}; {_ACCEPTED}"
        )


def layout(tree: FileTree) -> Layout:
    """Returns the classes of a folder of pictures, split by split.

    Raises:
        InputError: fewer than two classes, a picture outside all classes, a class without a
            readable picture, or an unknown division that may be into splits.
    """
    names = tree.pictures()
    base = _descend(names, "")
    tops = list(dict.fromkeys(_below(name, base)[0] for name in names if _below(name, base)[1:]))
    found: dict[str, list[str]] = {}
    for top in tops:
        if split := split_of(top):
            found.setdefault(split, []).append(top)
    if found:
        result = _by_split(tree, base, names, found)
    elif any(split_of(_second(name, base) or "") for name in names):
        result = _by_class(tree, base, names)
    else:
        classes = _classes(tree, names, base)
        _refuse_unknown_splits(tree, base, names)
        _refuse_deeper(tree, classes, base, 1)
        result = Layout(classes, None, _empty(tree, base) if names else [])
    for classes in (result.train, result.test):
        if classes is not None and len(classes) < 2:
            skipped = f" (left out: {counted(tree.unreadable())})" if tree.unreadable() else ""
            raise InputError(
                f"{tree.path(base)} has class folders with pictures: "
                f"{', '.join(classes) or 'none'}; expected two or more{skipped}"
            )
    _same_classes(tree, result)
    return result


def _same_classes(tree: FileTree, found: Layout) -> None:
    """Raises unless the training and the test pictures are of the same classes."""
    if found.test is not None and (differing := sorted(found.train.keys() ^ found.test.keys())):
        raise InputError(
            f"{tree.root} has class {differing[0]} in only one of train and test; "
            "expected the same classes in both"
        )
