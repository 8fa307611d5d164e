"""Files that a user names, as FILE.py:NAME or to be written, and the standard streams.

Nothing here imports jax.
"""

import codecs
import hashlib
import importlib.util
import io
import os
import sys
import types
from pathlib import Path
from typing import Any

from lsa_jax.errors import InputError, one_line

ACCEPTED = "FILE.py:NAME, such as my_model.py:make"


def is_named(value: Any) -> bool:
    """Whether a value has the form FILE.py:NAME."""
    path, _, name = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    return path.endswith(".py") and name.isidentifier()


def path_of(field: str, named: str) -> Path:
    """Returns the file of FILE.py:NAME.

    Args:
        field: of the setting, for messages.
        named: its value.

    Raises:
        InputError: another form, or there is no such file.
    """
    if not is_named(named):
        raise InputError(f"{field} is {named!r}; accepted: {ACCEPTED}")
    path = Path(os.path.expanduser(named.rpartition(":")[0]))
    if not path.is_file():
        raise InputError(f"{field} is {named!r} and there is no file {path}; accepted: {ACCEPTED}")
    return path


def output_file(name: str, value: str | None) -> Path | None:
    """Returns the file that a flag names, or None.

    Args:
        name: of the flag.
        value: as given; "~" is the user's home.

    Raises:
        InputError: it cannot be written.
    """
    if value is None:
        return None
    path = Path(os.path.expanduser(value))  # of "" the current folder
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise InputError(
            f"--{name} is {value!r}; accepted: a file in a folder that exists and can be written to"
        )
    return path


def digest(field: str, named: str) -> str:
    """Returns a hash of the contents of the file of FILE.py:NAME.

    Raises:
        InputError: as `path_of`.
    """
    return hashlib.sha256(path_of(field, named).read_bytes()).hexdigest()[:16]


def run(named: str, path: Path) -> types.ModuleType:
    """Runs a Python file and returns its module.

    Raises:
        InputError: it fails; the line begins with `named`, such as "--config is 'mine.py'".
    """
    # A name that no library has; dataclasses look it up.
    spec = importlib.util.spec_from_file_location(str(path), path)
    assert spec is not None and spec.loader is not None, path
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"{named}, which fails: {reason}; accepted: a file that runs") from error
    return module


def load(field: str, named: str) -> Any:
    """Runs the file of FILE.py:NAME and returns the object of that name.

    Args:
        field: of the setting, for messages.
        named: its value.

    Raises:
        InputError: there is no such file or name, or the file fails.
    """
    path, name = path_of(field, named), named.rpartition(":")[2]
    folder = str(path.parent.resolve())  # of modules next to it
    sys.path.insert(0, folder)
    try:
        module = run(f"{field} is {named!r}", path)
    finally:
        sys.path.pop(0)
        if folder not in sys.path:
            sys.path.append(folder)  # for imports inside its functions
    if not hasattr(module, name):
        there = [
            key
            for key, value in vars(module).items()
            if not key.startswith("_") and not isinstance(value, types.ModuleType)
        ]
        raise InputError(f"{field} is {named!r}; accepted names of {path}: {', '.join(there)}")
    return getattr(module, name)


def prepare_streams() -> None:
    """Opens closed streams, and lets the output hold names that are not UTF-8 and unknown signs.

    A file of results that took the number of a closed stream would get what libraries print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))
    if isinstance(sys.stdout, io.TextIOWrapper):
        is_utf8 = codecs.lookup(sys.stdout.encoding).name == "utf-8"
        sys.stdout.reconfigure(errors="surrogateescape" if is_utf8 else "replace")
