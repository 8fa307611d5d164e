"""Whether to factorise a kernel's matrix, in memory or on disk, or to iterate on it: what is least.

Counted in operations at the rate of a float64 factorisation in memory, for n examples, c targets:

* `regress`: n^3 / 3, and 12 n^2 bytes of memory with the matrix;
* `regress_cg`: 2 n^2 (c + 40) an iteration, since a product with few columns waits for memory;
* `regress_cg` with a factor: n^3 / 3 in float32, which is 1.3 times as fast with what goes to the
  disk and comes from it, and eight products for the few iterations that correct its rounding.

The numbers are of an AMD EPYC, 8,000 examples (docs/kernels.md, "A factor on disk", has the rates):
the 40 is 19 on one core and 50 on two, the 1.3 is 1.4 and 1.3.
"""

import shutil
from pathlib import Path
from typing import Literal, NamedTuple

from lsa_jax.checks import integer, require
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.solve.disk_factor import Panels, choose_rows

# Iterations behind the preconditioner that is chosen here. Infinite NTKs of images took 41 to 86
# to a residual of 1e-6 with a ridge of 1e-4, on 10,000 and 60,000 of them.
ITERATIONS = 80

_COLUMNS = 40
FASTER_IN_FLOAT32 = 1.3

# Of a factor on disk: four iterations, with a substitution each that takes as long as a product.
PRODUCTS = 8

Solver = Literal["cholesky", "cholesky_on_disk", "conjugate_gradients"]


class Choice(NamedTuple):
    """A solver, and why it was chosen.

    Attributes:
        solver: "cholesky" (`regress`), "conjugate_gradients" (`regress_cg`) or "cholesky_on_disk"
            (`regress_cg` with a `factor`).
        reason: in words, with the numbers.
    """

    solver: Solver
    reason: str


def product(n: int, num_targets: int) -> float:
    """Returns what the product of an n x n matrix and so many columns takes."""
    return 2.0 * n**2 * (num_targets + _COLUMNS)


def factor_on_disk(n: int, num_targets: int) -> float:
    """Returns what `regress_cg` takes with a factor."""
    return n**3 / 3 / FASTER_IN_FLOAT32 + PRODUCTS * product(n, num_targets)


def choose_solver(n: int, num_targets: int, *, disk: Path | None = None) -> Choice:
    """Chooses how a regression on n examples is to be solved: what takes least of what fits.

    Nobody is told the eigenvalues, which decide how many iterations it takes: 80 are assumed.

    Args:
        n: examples.
        num_targets: numbers to predict.
        disk: folder that could keep a factor; None for none.

    Raises:
        InputError: a number below 1.
    """
    require("n", n, integer(1))
    require("num_targets", num_targets, integer(1))
    available = memory.host_available()
    takes: dict[Solver, float] = {"conjugate_gradients": ITERATIONS * product(n, num_targets)}
    told = [f"{ITERATIONS} iterations take about {takes['conjugate_gradients']:.2g} operations"]
    if (needed := 12.0 * n**2) <= available:
        takes["cholesky"] = n**3 / 3
        told.append(f"a factorisation {takes['cholesky']:.2g}")
    else:
        told.append(f"a factorisation {needed:.2g} bytes of {available:.2g} that are available")
    if disk is not None:
        panels, free = Panels(n, choose_rows(n, available)), shutil.disk_usage(disk).free
        if 4.0 * panels.size <= free and panels.held <= available:
            takes["cholesky_on_disk"] = factor_on_disk(n, num_targets)
            told.append(f"one on disk {takes['cholesky_on_disk']:.2g}")
        else:
            told.append(f"one on disk {4.0 * panels.size:.2g} bytes of {free:.2g} that are free")
    reason = f"for {n:,} examples and {num_targets} targets " + ", ".join(told)
    return Choice(min(takes, key=lambda solver: takes[solver]), reason)
