"""The command `lsa-jax diagnose my_model.py:make --data=FOLDER_OR_NPZ`, from any folder.

Nothing here imports jax before the arguments are checked.
"""

import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

from absl import flags, logging

from lsa_jax import program_cache, user_files
from lsa_jax.checks import integer, require
from lsa_jax.errors import InputError, NumericalError, print_warning

_USAGE = "lsa-jax diagnose FILE.py:NAME --data=FOLDER_OR_NPZ [--minutes=3] [--html=FILE]"

_ABOUT = "Prints whether a network learns features on your data (rich) or fits a kernel (lazy)."

_FLAGS = flags.FlagValues()
_DATA = flags.DEFINE_string(
    "data",
    None,
    "A folder of classes of images, or an .npz file with arrays X, y and perhaps X_test, y_test.",
    flag_values=_FLAGS,
)
_SIZE = flags.DEFINE_integer(
    "size", 32, "Side in pixels to which the images of a folder are resized.", flag_values=_FLAGS
)
_MINUTES = flags.DEFINE_float(
    "minutes", 3.0, "Time budget in minutes, from which the sizes are chosen.", flag_values=_FLAGS
)
_HTML = flags.DEFINE_string(
    "html", None, "Write the answer as a web page to this file.", flag_values=_FLAGS
)
_KEY = flags.DEFINE_integer("key", 0, "Seed of all random numbers.", flag_values=_FLAGS)
_SIZES = {
    name: flags.DEFINE_integer(name, None, f"{words}; chosen if left out.", flag_values=_FLAGS)
    for name, words in {
        "seeds": "Networks trained for each split",
        "folds": "Parts of the data, each the test set once",
        "examples": "Examples that are used at most",
        "epochs": "Passes over the training examples at most",
    }.items()
}


def load_data(named: str, size: int) -> tuple[Any, ...]:
    """Returns the two data arguments of `diagnose`, read from a folder or an .npz file.

    A folder has classes of images, resized to `size` pixels, with or without a test set; a file
    arrays X and y, and perhaps X_test and y_test.

    Raises:
        InputError: neither of the two, or its contents are not accepted.
    """
    path = Path(os.path.expanduser(named))
    if named and path.is_dir():
        from lsa_jax.data import images

        found = images.load_folder(path.resolve().name, path.resolve().parent, size=size)
        return tuple(found.train), tuple(found.test)
    if path.suffix != ".npz" or not path.is_file():
        gone = "" if path.exists() else ", which does not exist"
        raise InputError(
            f"--data is {named!r}{gone}; accepted: a folder of images, or an .npz file"
        )
    from lsa_jax.reporting import files

    found = files.read_array(path, "accepted in --data: a file of np.savez, without objects")
    found = found if isinstance(found, dict) else {}  # a single array under another name
    tested = ("X_test", "y_test") if {"X_test", "y_test"} & found.keys() else ()
    if {"X", "y", *tested} <= found.keys():
        given = [found[name] for name in ("X", "y", *tested)]
        return (tuple(given[:2]), tuple(given[2:])) if tested else tuple(given)
    raise InputError(
        f"--data is {named!r} with arrays {', '.join(sorted(found)) or 'none'}; accepted: X and y, "
        "and perhaps both X_test and y_test"
    )


def _main(argv: list[str]) -> None:
    if len(argv) != 3 or argv[1] != "diagnose":
        raise InputError(f"the command is {' '.join(argv[1:])!r}; accepted: {_USAGE}")
    if _DATA.value is None:
        raise InputError(f"--data is missing; accepted: {_USAGE}")
    require("--key", _KEY.value, integer(0))
    page = user_files.output_file("html", _HTML.value)
    network = user_files.load("model", argv[2])
    data = load_data(_DATA.value, _SIZE.value)
    import jax

    from lsa_jax.diagnosis import diagnose

    sizes = {name: flag.value for name, flag in _SIZES.items()}
    key = jax.random.key(_KEY.value)
    found = diagnose(network, *data, key=key, minutes=_MINUTES.value, **sizes)
    if page is not None:  # before the output, whose reader may have gone
        found.to_html(page, shlex.join(["lsa-jax", *sys.argv[1:]]))
    print(found, found.table.to_string(index=False), sep="\n\n")


def _parse(argv: list[str]) -> list[str]:
    """Parses the flags; wrong ones cost a line and exit status 2."""
    if "--help" in argv or "-h" in argv:
        print(f"{_ABOUT}\n\n{_USAGE}\n{_FLAGS.main_module_help() or _FLAGS.get_help()}")
        sys.exit(0)
    try:
        return _FLAGS(argv)
    except flags.Error as error:
        raise InputError(f"{error}; accepted: {_USAGE}") from None


def run() -> None:
    """Runs the command; bad input costs one line and exit status 2."""
    user_files.prepare_streams()
    logging.set_verbosity(logging.WARNING)
    warnings.showwarning = print_warning
    program_cache.keep_programs()
    try:
        _main(_parse(sys.argv))
    except (InputError, NumericalError, OSError) as error:
        print(f"lsa-jax: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
