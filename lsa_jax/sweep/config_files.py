"""Configuration files: Python files with a `get_config(variant)`, mostly below `configs/`."""

import contextlib
import difflib
import glob
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_collections

from lsa_jax import user_files
from lsa_jax.errors import InputError
from lsa_jax.reporting import papers
from lsa_jax.sweep.fields import load_settings
from lsa_jax.sweep.points import file_name
from lsa_jax.sweep.variants import UnknownVariantError

_FOLDER = Path("configs")
_SUGGESTED = 3
_LINES = ".txt"  # ends the name of a file of configurations


def named_in(command: Sequence[str]) -> str:
    """Returns the value of `--config` in a recorded command; empty where it has none."""
    return next((word.partition("=")[2] for word in command if word.startswith("--config=")), "")


def expand(named: str) -> list[list[str]]:
    """Returns the configurations of one `--config`, each with the fields that its line sets.

    Args:
        named: a configuration, a pattern such as `configs/lsa/*.py:small`, or a file of lines,
            `FILE.txt`, each of a configuration and its own `--config.FIELD=VALUE`.

    Raises:
        InputError: there is none, or a line has other words.
    """
    path, variant = papers.split_config(named)
    if named.endswith(_LINES):
        found = [words for line in _lines(path) if (words := _words(path, line))]
    elif path.exists() or not any(sign in named for sign in "*?["):
        return [[named]]
    else:
        paths = sorted(glob.glob(str(path), recursive=True))
        found = [[f"{path}:{variant}".removesuffix(":")] for path in paths]
    wrong = [word for line in found for word in line[1:] if not word.startswith("--config.")]
    if wrong or not found:
        raise InputError(
            f"--config is {named!r}, which has {wrong[0] if wrong else 'no configuration'}; "
            "accepted: a pattern of files, or a file of lines FILE:VARIANT --config.FIELD=VALUE"
        )
    return found


def _lines(path: Path) -> list[str]:
    """Returns the lines of a text file; none where there is no file."""
    try:  # editors of Windows begin a file with a mark
        return path.read_text(encoding="utf-8-sig").splitlines() if path.is_file() else []
    except UnicodeDecodeError:
        raise InputError(f"--config is '{path}', which is no text; accepted: UTF-8") from None


def _words(path: Path, line: str) -> list[str]:
    """Returns the words of a line, as a shell does: a comment begins with # at a word's start."""
    line = line.removeprefix("--config=")
    for mark in re.finditer(r"(?:^|\s)#", line):
        with contextlib.suppress(ValueError):  # within quotation marks
            return shlex.split(line[: mark.start()])
    try:
        return shlex.split(line)
    except ValueError as error:  # a quotation that does not end, or nothing after a backslash
        raise InputError(
            f"--config is '{path}' with the line {line!r}: {error}; accepted: quotation marks in "
            "pairs, and no backslash at the end"
        ) from None


def folder(named: str, fields: Sequence[str]) -> str:
    """Returns a name for a sweep's folder that depends on its own line of configuration alone."""
    path, variant = papers.split_config(named)
    parent = path.absolute().parent.name
    parts = [parent if parent != _FOLDER.name else "", path.stem, variant]
    parts += [field.removeprefix("--config.") for field in fields]
    return file_name("-".join(filter(None, parts)))


def load(path: Path) -> ModuleType:
    """Runs a configuration file.

    Raises:
        InputError: there is no such file, it fails, or it has no get_config.
    """
    if path.is_dir():
        raise InputError(f"--config is '{path}', a folder; accepted: a Python file, as in configs/")
    if not path.is_file():
        raise InputError(f"--config is '{path}', which does not exist; {_suggestion(path)}")
    if path.suffix != ".py":
        raise InputError(f"--config is '{path}'; accepted: a Python file, such as {path.stem}.py")
    module = user_files.run(f"--config is '{path}'", path)
    if not callable(getattr(module, "get_config", None)):
        raise InputError(f"--config: {path} has no get_config()")
    return module


def config_of(module: ModuleType, variant: str) -> ml_collections.ConfigDict:
    """Returns the configuration that a file gives, of a size unless `variant` is empty.

    Raises:
        InputError: it has no such variant, it fails, or it gives something else.
    """
    path = module.__file__
    try:
        config = module.get_config(variant) if variant else module.get_config()
    except InputError:
        raise
    except TypeError as error:
        given = f"with the variant {variant!r}" if variant else "without a variant"
        raise InputError(f"--config: get_config() of {path} fails {given}: {error}") from None
    except (Exception, SystemExit) as error:
        raise InputError(f"--config: {path} fails with {type(error).__name__}: {error}") from None
    if not isinstance(config, ml_collections.ConfigDict):
        raise InputError(
            f"--config: get_config() of {path} returns {config!r:.40}; accepted: an experiment's "
            "default_config(), with fields set"
        )
    return config


def variants(module: ModuleType) -> tuple[str, ...]:
    """Returns the names that a configuration file takes after the colon, "full" first.

    One that takes none of its own has "full" alone.
    """
    try:
        module.get_config("?")  # no name can be this, and the refusal lists those that are
    except UnknownVariantError as error:
        return error.known
    except TypeError:
        pass
    return ("full",)


def sweep_of(module: ModuleType, config: ml_collections.ConfigDict) -> list[dict[str, Any]]:
    """Returns the swept settings of every point: the file's own, or else its experiment's.

    Raises:
        InputError: there is no such experiment, or the file's function fails or gives no points.
    """
    own = getattr(module, "get_sweep", None)
    if own is None:
        return load_settings(config.experiment).sweep(config)
    try:
        points = [dict(point) for point in own(config)]
        if not all(isinstance(name, str) for point in points for name in point):
            raise TypeError("a name is no text")
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"--config: get_sweep() of {module.__file__} fails with {type(error).__name__}: "
            f"{error}; accepted: a list of dictionaries, each of a point's fields by dotted name"
        ) from None
    return points


def name(path: Path, variant: str) -> str:
    """Returns what follows `--config=`."""
    return str(path) if variant == "full" else f"{path}:{variant}"


def _suggestion(path: Path) -> str:
    """Returns the files whose names begin as that of a missing one, or differ in few letters."""
    known = sorted(_FOLDER.rglob("*.py"))
    stems = {other.stem for other in known}
    close = [stem for stem in stems if stem.startswith(path.stem)]
    close = close or difflib.get_close_matches(path.stem, stems, _SUGGESTED, 0.65)
    near = [str(other) for other in known if other.stem in close][:_SUGGESTED]
    if not near:
        return "accepted: a file; python -m launch.list lists those that there are"
    return f"did you mean {' or '.join(near)}?"
