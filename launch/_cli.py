"""Flags and configurations of all launch scripts; invalid input prints one line.

Everything here runs before jax is imported. A mistake prints `error: ...` on standard error and
exits with status 2.
"""

import errno
import importlib.util
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import ml_collections
from absl import app, flags, logging

from lsa_jax import program_cache, user_files
from lsa_jax.errors import (
    BAD_INPUT,
    MISSING_DATA,
    InputError,
    MissingDataError,
    one_line,
    print_warning,
)
from lsa_jax.reporting import papers
from lsa_jax.sweep import config_files
from lsa_jax.sweep.fields import load_settings, parse
from lsa_jax.sweep.points import Point, make_points
from lsa_jax.sweep.variants import set_fields

_OVERRIDE = "--config."
_OF_OUTPUT = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO)


class _PathParser(flags.ArgumentParser):
    """Reads a path as users write it: ~, $HOME and a slash at its end, which shells may leave."""

    def parse(self, argument: str) -> str:
        """Expands `~` and environment variables in a path; an empty path stays empty."""
        path = os.path.expanduser(os.path.expandvars(argument))
        return path.rstrip("/") or path

    def flag_type(self) -> str:
        """Returns the help's word for a value."""
        return "path"


class _PathsParser(flags.ListParser):
    """Reads paths with commas between them."""

    def parse(self, argument: str | list[str]) -> list[str]:
        """Returns the paths that are meant."""
        return [_PathParser().parse(path) for path in super().parse(argument)]


def define_path(
    name: str, default: Any, text: str, *, several: bool = False
) -> flags.FlagHolder[Any]:
    """Defines a flag that takes a path, or several with commas between them.

    Of two commands in a process the last one's flag counts.
    """
    parser = _PathsParser() if several else _PathParser()
    serializer = flags.CsvListSerializer(",") if several else flags.ArgumentSerializer()
    return flags.DEFINE(parser, name, default, text, serializer=serializer, allow_override=True)


CONFIG = flags.DEFINE_multi(
    _PathParser(),
    flags.ArgumentSerializer(),
    "config",
    None,
    "Configuration file, such as configs/quickstart.py, or one with a variant, FILE:small. "
    "Any field of it is set by --config.FIELD=VALUE.",
)

WORKDIR = define_path("workdir", None, "Folder for results; the same command resumes there.")
DATA_DIR = define_path(
    "data_dir", None, "Folder of data sets in their standard layouts; default: LSA_DATA_DIR."
)
# So that a flag which a command defines by `define_path` is the command's own in its --help.
flags.disclaim_key_flags()


def declare(*names: str) -> None:
    """Shows these shared flags in --help of the calling command."""
    for name in names:
        flags.declare_key_flag(name)


def refusal(error: BaseException) -> str | None:
    """Returns the printed text of a mistake in the input; None for any other error."""
    if isinstance(error, MissingDataError):
        return f"{MISSING_DATA}{error}"
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, OSError) and error.filename is None and error.errno in _OF_OUTPUT:
        return (
            f"output cannot be written: {error.strerror}; accepted: a reader that stays, or a disk "
            "with room, where the same command goes on"
        )
    if not isinstance(error, OSError) or not isinstance(error.filename, str | bytes | os.PathLike):
        return None
    name = os.fsdecode(error.filename)
    return f"{name}: {error.strerror}; accepted: a path that can be read, or written as output"


def _fail(message: str) -> NoReturn:
    print("error: " + one_line(message), file=sys.stderr)
    sys.exit(BAD_INPUT)


_overrides: list[str] = []  # --config.FIELD=VALUE of the command line and of its flag files


def _refuse_infinite() -> None:
    """Raises where a flag is not-a-number or infinite, which passes the bounds of absl."""
    for name, flag in flags.FLAGS.flag_values_dict().items():
        if isinstance(flag, float) and not math.isfinite(flag):
            raise InputError(f"--{name} is {flag}; accepted: a finite number")


def _parse(argv: list[str]) -> list[str]:
    """Parses flags; any mistake in them is one line."""
    if any(word.lstrip("-").startswith("help") for word in argv[1:]):
        end_with_reader()
    try:
        words = flags.FLAGS.read_flags_from_files(argv[1:], force_gnu=False)
        _overrides[:] = [word for word in words if word.startswith(_OVERRIDE)]
        remaining = flags.FLAGS([argv[0], *(w for w in words if not w.startswith(_OVERRIDE))])
        _refuse_infinite()
    except (flags.Error, InputError) as error:
        _fail(str(error))
    except SystemExit:
        sys.exit(0)  # of --help, where absl has 1: runs that failed
    except UnicodeDecodeError:
        _fail("--flagfile is no text; accepted: a file of flags in UTF-8, one a line")
    if len(remaining) > 1:
        _fail(f"unexpected argument {remaining[1]!r}; all settings are flags such as --workdir=DIR")
    return remaining


def required(flag: flags.FlagHolder[Any], accepted: str) -> Any:
    """Returns the value of a flag; raises where it was not given."""
    if not flag.value:
        raise InputError(f"--{flag.name} is missing; accepted: {accepted}")
    return flag.value


def require_library(name: str, user: str, command: str) -> None:
    """Raises where a library is not installed, which the command installs; imports none."""
    if importlib.util.find_spec(name) is None:
        raise InputError(f"{user} needs {name}, which is not installed; accepted: {command}")


def config_name() -> str:
    """Returns --config, or raises where it was not given; of several the last counts."""
    return required(CONFIG, "--config=configs/quickstart.py")[-1]


def configured(named: str | None = None) -> list[str]:
    """Returns a configuration, the last of --config by default, and the fields that are set."""
    return [f"--config={named or config_name()}", *_overrides]


def command(of_sweep: Sequence[str] = ()) -> list[str]:
    """Returns this command line for a sweep's record: its configuration, then other flags.

    The configuration and its fields are `configured()`, or those of one of several sweeps.
    """
    known = {flags.FLAGS[name].name: flags.FLAGS[name] for name in flags.FLAGS}
    given = (known[name] for name in known if name not in ("config", "flagfile"))
    others = [flag.serialize() for flag in given if flag.present]
    return [sys.argv[0], *(of_sweep or configured()), *others]


def _refuse_config() -> None:
    """Raises where a configuration is given, which would be ignored."""
    for flag in configured() if CONFIG.present else _overrides:
        raise InputError(
            f"{flag} is given to a command that reads no configuration; accepted: without it, as "
            "launch.sweep, launch.run, launch.slurm, launch.cluster, launch.preflight and "
            "launch.show take one"
        )


def run(main: Callable[[], int | None], *, configured: bool = False) -> NoReturn:
    """Runs a script: parses the flags, calls `main()`, and turns its errors into exit codes.

    Where the script is not `configured`, --config and --config.FIELD are refused.

    0: done. 1: done, but some runs failed (as `main` returns). 2: invalid input.
    130: stopped by Ctrl-C.
    """

    def guarded(argv: list[str]) -> int | None:
        del argv
        # absl shows every library's INFO lines, such as the devices that jax does not find.
        logging.set_verbosity(logging.WARNING)
        warnings.showwarning = print_warning
        user_files.prepare_streams()
        try:
            if not configured:
                _refuse_config()
            if not ("distributed" in flags.FLAGS and flags.FLAGS.distributed):
                program_cache.keep_programs()
            status = main()
            sys.stdout.flush()  # here, where an error is one line
            return status
        except (InputError, OSError) as error:
            if (line := refusal(error)) is None:
                raise
            if isinstance(error, OSError) and error.filename is None:
                # Of the output, whose remainder Python would print at the end.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _fail(line)
        except KeyboardInterrupt:
            print("\nstopped; the same command goes on from here", file=sys.stderr)
            sys.exit(130)

    app.run(guarded, flags_parser=_parse)


def end_with_reader() -> None:
    """Lets a command that only prints end quietly with its reader, such as `| head`."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def workdir() -> Path:
    """Returns --workdir, or raises where it was not given."""
    return Path(required(WORKDIR, "--workdir=DIR"))


def data_dir() -> Path | None:
    """Returns --data_dir, or LSA_DATA_DIR, or None; raises where there is no such folder."""
    given = DATA_DIR.value or _PathParser().parse(os.environ.get("LSA_DATA_DIR", ""))
    if given and not Path(given).is_dir():
        source = "--data_dir" if DATA_DIR.value else "LSA_DATA_DIR"
        raise InputError(f"{source} is {given!r}; accepted: a folder that exists")
    return Path(given) if given else None


def _refuse_swept(
    config: ml_collections.ConfigDict, points: list[Point], overridden: dict[str, Any]
) -> None:
    """Raises where the sweep sets a field of every point itself, so that an override is ignored."""
    for name, value in overridden.items():
        swept = [point.settings[name] for point in points if name in point.settings]
        axis = name.rpartition(".")[2]
        has_axis = axis in config.get("sweep", {})
        # Without an axis of its own it can be the override that the points have, as a width's.
        if len(swept) == len(points) and (has_axis or value not in swept):
            ours = f'--config.sweep.{axis}="({value!r},)"' if has_axis else "config.sweep.*"
            raise InputError(
                f"--config.{name} is {value!r}, but the sweep sets {name} itself; accepted: "
                f"{ours}, or launch.run, which runs one point"
            )


def configured_points(
    words: Sequence[str] | None = None, *, sweep: bool
) -> tuple[ml_collections.ConfigDict, list[Point]]:
    """Returns the validated configuration and its points: the sweep's, or the one it describes.

    Args:
        words: --config and fields that are set; by default those of the command line.
        sweep: whether the points are the sweep's.

    Raises:
        InputError: no configuration, or a field that is not accepted or would be ignored.
    """
    named, *fields = words or configured()
    path, variant = papers.split_config(named.partition("=")[2])
    module = config_files.load(path)
    config = config_files.config_of(module, variant)
    settings = load_settings(config.get("experiment"))
    overridden = {}
    for override in fields:
        name, equals, written = override.removeprefix(_OVERRIDE).partition("=")
        if not equals:
            raise InputError(f"{override} has no value; accepted: {override}=VALUE")
        if name.startswith("sweep.") and not sweep:
            raise InputError(
                f"{override} is given to a command that runs one point; accepted: the point's own "
                "fields, such as --config.seed=0, or the same with launch.sweep"
            )
        overridden[name] = parse(name, written, settings.fields)
        set_fields(config, {name: overridden[name]})
    settings.validate(config)
    if not sweep:
        return config, make_points(config, [{}], settings.validate)
    points = make_points(config, config_files.sweep_of(module, config), settings.validate)
    _refuse_swept(config, points, overridden)
    return config, points
