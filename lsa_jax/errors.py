"""Errors and warnings of runs, apart from bugs."""

import contextlib
import sys

# Exit status of a command with bad input.
BAD_INPUT = 2

# The beginning of the line on missing data, by which a reproduction recognises it.
MISSING_DATA = "missing data: "


class InputError(ValueError):
    """A mistake in the user's input: a flag, a setting, a file.

    The message is one line with the field or file, the value and the accepted values. The launch
    scripts print it and exit with status 2, before anything has been written.
    """


class MissingDataError(InputError):
    """A data set is missing, rather than damaged.

    A reproduction of a whole paper skips the experiments that need it.
    """


class StorageError(InputError):
    """A disk is full or failing, or a folder cannot be written.

    Complete files stay, and the same command continues from them.
    """


class DamageWarning(UserWarning):
    """A file on disk is damaged, and the run goes on without it."""


class MixedVersionsWarning(UserWarning):
    """A sweep continues with other versions of packages."""


class MixedDevicesWarning(UserWarning):
    """A sweep continues with devices of another kind."""


class MixedDataWarning(UserWarning):
    """A sweep continues with other data."""


class NumericalError(ArithmeticError):
    """A computation failed numerically (overflow, singular matrix).

    The message has the place (step, condition number) and advice. A sweep records the run as failed
    and continues with the others.
    """


class ReportedError(InputError):
    """An `InputError` of all processes of a command, which only the first reports."""


class ElsewhereError(RuntimeError):
    """Another process of the same command has failed."""


def one_line(text: object) -> str:
    """Returns a text, such as an error of another library, as one line."""
    return " ".join(str(text).split())


def print_warning(message: Warning | str, category: type[Warning], *where: object) -> None:
    """Prints a warning in one line, without its line of code; a `warnings.showwarning`."""
    del where
    with contextlib.suppress(OSError):  # a terminal that has gone does not end the work
        print(f"warning: {one_line(message)} ({category.__name__})", file=sys.stderr)
