"""What can be wrong with a run, apart from bugs, and how other processes hear of it."""

# Exit status of a command that was given what it does not accept.
BAD_INPUT = 2

# How the line on missing data begins, by which a reproduction tells it from other mistakes.
MISSING_DATA = "missing data: "


class InputError(ValueError):
    """A mistake in what the user gave: a flag, a setting, a file.

    The message is one line that names the field or file, the value received and what is accepted.
    The launch scripts print it and exit with status 2, before anything has been written.
    """


class MissingDataError(InputError):
    """A data set is not where it was looked for: not there at all, rather than damaged.

    A reproduction of a whole paper leaves out what needs it, and goes on.
    """


class StorageError(InputError):
    """A disk is full or failing, or a folder cannot be written.

    What was whole there before still is, and the same command goes on from it.
    """


class DamageWarning(UserWarning):
    """What is on disk is not what was written there, and the run goes on without it."""


class MixedVersionsWarning(UserWarning):
    """A sweep goes on with other versions of packages than it was begun with."""


class MixedDevicesWarning(UserWarning):
    """A sweep goes on with devices of another kind than it was begun with."""


class MixedDataWarning(UserWarning):
    """A sweep goes on with other data than it was begun with."""


class NumericalError(ArithmeticError):
    """A computation left the numbers that it can be trusted on (overflow, singular matrix).

    The message says where (step, condition number) and what to change. A sweep records the run as
    failed and goes on with the others.
    """


class ReportedError(InputError):
    """An `InputError` that all processes of a command have found, and the first of them reports."""


class ElsewhereError(RuntimeError):
    """Another process of the same command has failed."""
