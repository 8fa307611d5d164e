"""The two ways in which a run can be wrong, apart from bugs."""


class InputError(ValueError):
    """A mistake in what the user gave: a flag, a setting, a file.

    The message is one line that names the field or file, the value received and what is accepted.
    The launch scripts print it and exit with status 2, before anything has been written.
    """


class NumericalError(ArithmeticError):
    """A computation left the numbers that it can be trusted on (overflow, singular matrix).

    The message says where (step, condition number) and what to change. A sweep records the run as
    failed and goes on with the others.
    """
