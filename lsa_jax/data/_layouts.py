"""Training and test classes of a folder of pictures, from the names of its folders.

Recognised, each also inside further folders that stand alone: CLASS/*, train/CLASS/* beside
test/CLASS/*, and CLASS/train/* beside CLASS/test/*. Pictures in deeper folders are of the class
above them. What may be a split and is none of these is refused, so that no split becomes a class.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from lsa_jax.data._file_trees import FileTree, counted
from lsa_jax.errors import InputError

# Names of pictures by class, in the order of the labels.
Classes = dict[str, list[str]]

_SPLITS = {
    "train": "train training trained trn",
    "test": "test testing tests tst eval evaluation",
    "validation": "validation valid validate val dev devel development",
}
_SPLIT_OF = {word: split for split, words in _SPLITS.items() for word in words.split()}
# Words that stand beside the name of a split: training_set, seg_train, TestImages.
_AROUND = frozenset("set sets data dataset images image imgs img split seg folder part".split())
_ACCEPTED = "accepted: one folder a class, or train/ and test/ with the same class folders"


class Layout(NamedTuple):
    """How the pictures of a folder are divided.

    Attributes:
        train: training pictures, or all where there is no test set.
        test: test pictures by the same classes; None where the folder has no splits.
        remarks: on folders and pictures that are left out.
    """

    train: Classes
    test: Classes | None
    remarks: list[str]


def split_of(folder: str) -> str | None:
    """Returns which split a folder's name means: "train", "test", "validation" or None."""
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
    """Returns the folder that divides the pictures: below folders that hold one folder alone."""
    while True:
        tops = {_below(name, base)[0] for name in names}
        if len(tops) != 1 or any(_second(name, base) is None for name in names):
            return base
        (top,) = tops
        if split_of(top) and not in_split:
            return base
        base = _join(base, top)


def _classes(tree: FileTree, names: list[str], base: str, depth: int = 0) -> Classes:
    """Returns pictures by the name of their folder so many folders below a base, in NFC."""
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
                        f"{tree.path(name)} is below a class and in a folder {part}, as of a "
                        f"split; {_ACCEPTED}"
                    )


def _chosen(tree: FileTree, found: Mapping[str, list[str]], where: str) -> tuple[str, str]:
    """Returns the one training folder and the one test folder, or the validation folder for it."""
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
    """Returns a remark on the pictures of folders beside the used ones."""
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
                    f"{tree.path(name)} is not directly in the train/ or test/ of a class, as "
                    f"others below {tree.path(base)} are; {_ACCEPTED}"
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
    """Raises where all folders hold the same folders, as splits of another name would."""
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
    """Returns the classes of a folder of pictures, of each split where it has splits.

    Raises:
        InputError: no two classes, a picture outside all classes, a class without a picture that
            can be read, or a division that may be into splits and is not a known one.
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
