"""Choice between factorising a kernel's matrix and iterating on it, by counted operations.

At the rate of a float64 factorisation in memory, for n examples and c targets: `regress` takes
n^3 / 3 operations, and 12 n^2 bytes of memory with the matrix; `regress_cg` 2 n^2 (c + 40) an
iteration, since a product with few columns waits for memory (measured on an AMD EPYC with 8,000
examples: 19 in place of 40 on one core, 50 on two).
"""

from typing import Literal, NamedTuple

from lsa_jax.checks import integer, require
from lsa_jax.kernels.matrices import memory

# Iterations with the preconditioner of `regress_cg`. Infinite NTKs of images took 41 to 86 to a
# residual of 1e-6 with a ridge of 1e-4, on 10,000 and 60,000 of them.
_ITERATIONS = 80

_COLUMNS = 40


class Choice(NamedTuple):
    """A solver, and why it was chosen.

    Attributes:
        solver: "cholesky" (`regress`) or "conjugate_gradients" (`regress_cg`).
        reason: in words, with the numbers.
    """

    solver: Literal["cholesky", "conjugate_gradients"]
    reason: str


def choose_solver(n: int, num_targets: int) -> Choice:
    """Chooses the solver of a regression on n examples: the one of fewer operations that fits.

    The number of iterations depends on the eigenvalues, which are unknown: 80 are assumed.

    Raises:
        InputError: a number below 1.
    """
    require("n", n, integer(1))
    require("num_targets", num_targets, integer(1))
    iterated = _ITERATIONS * 2.0 * n**2 * (num_targets + _COLUMNS)
    factorised, needed, available = n**3 / 3, 12.0 * n**2, memory.host_available()
    fits = needed <= available
    if fits:
        other = f"a factorisation {factorised:.2g}"
    else:
        other = f"a factorisation {needed:.2g} bytes of {available:.2g} that are available"
    reason = (
        f"for {n:,} examples and {num_targets} targets {_ITERATIONS} iterations take about "
        f"{iterated:.2g} operations, {other}"
    )
    return Choice("cholesky" if fits and factorised < iterated else "conjugate_gradients", reason)
