"""Whether to factorise a kernel's matrix or to iterate on it, by what either takes."""

from typing import Literal, NamedTuple

from lsa_jax.checks import integer, require
from lsa_jax.kernels.matrices import memory

# Iterations behind the preconditioner that is chosen here. Infinite NTKs of images took 41 to 86
# to a residual of 1e-6 with a ridge of 1e-4, on 10,000 and 60,000 of them.
ITERATIONS = 80

# Operations a second of a factorisation, over those of a product with few columns, which waits for
# memory: 35 and 8.5 thousand million on one core of an AMD EPYC, 5,000 examples, ten targets.
_RATE = 4.0


class Choice(NamedTuple):
    """A solver, and why it was chosen.

    Attributes:
        solver: "cholesky" (`regress`) or "conjugate_gradients" (`regress_cg`).
        reason: in words, with the numbers.
    """

    solver: Literal["cholesky", "conjugate_gradients"]
    reason: str


def choose_solver(n: int, num_targets: int) -> Choice:
    """Chooses how a regression on n examples is to be solved, from its time and the free memory.

    A factorisation takes n^3 / 3 operations and 12 n^2 bytes with the matrix; iterations
    2 n^2 c each, for c targets, and read the matrix from a file. Neither is told the eigenvalues,
    which decide how many iterations it takes.

    A factor is never kept on disk: with few targets iterations take less (docs/kernels.md, "Why no
    factorisation on disk", has the rates and from how many targets on they do not).

    Raises:
        InputError: a number below 1.
    """
    require("n", n, integer(1))
    require("num_targets", num_targets, integer(1))
    needed, available = 12.0 * n**2, memory.host_available()
    if needed > available:
        why = f"a factorisation takes {needed:.3g} bytes, and {available:.3g} are available"
        return Choice("conjugate_gradients", why)
    ratio = n**3 / 3 / (_RATE * ITERATIONS * 2.0 * n**2 * num_targets)
    why = (
        f"a factorisation takes about {ratio:.2g} times as long as {ITERATIONS} iterations for "
        f"{n} examples and {num_targets} targets, and {needed:.3g} of {available:.3g} bytes"
    )
    return Choice("cholesky" if ratio <= 1 else "conjugate_gradients", why)
