"""What exact regression on so many examples will take on given hosts, before any of it is paid.

With n training and m test examples, c targets and h hosts that each compute p pairs a second and
move N bytes a second from and to the others:

* pairs: n (n + 1) / 2 + m n, in pairs / (h p) seconds, or as long as the disk takes to write them;
* kept: 4 bytes an entry; (n^2 / 2 + m n) entries packed, (n^2 + m n) whole;
* `regress`: n^3 / 3 operations on one host, beside 8 n^2 bytes for the factor;
* `regress_cg`: an iteration takes 2 n^2 c operations, shared by the hosts, or as long as each takes
  to read its part from disk; of several hosts each moves 4 x 8 n c bytes besides, however many they
  are: the first one's vectors go to all, and of the products each adds up one part;
* `regress_cg` with a factor on disk, of one host: n^3 / 3 operations in float32, or as long as the
  disk takes for its panels (`disk_factor`), a few iterations, and 2 n^2 bytes more of the disk;
* `regress_nystrom` on k centres: n k pairs, and 2 n k^2 operations, on one host.

Rates are what was measured, or a roofline: then the times are bounds, not forecasts.
"""

from typing import Literal, NamedTuple

from lsa_jax.checks import integer, number, require
from lsa_jax.kernels.solve.cost import FASTER_IN_FLOAT32, ITERATIONS, PRODUCTS
from lsa_jax.kernels.solve.disk_factor import choose_rows

_ENTRY, _VECTOR = 4, 8  # bytes of a float32 and a float64

Call = Literal["regress", "regress_cg", "regress_cg with a factor", "regress_nystrom"]


class Hosts(NamedTuple):
    """Hosts that are alike.

    Attributes:
        count: how many.
        pairs: pairs of examples a second of the kernel that is meant, by all devices of a host.
        memory: bytes of a host.
        disk: bytes of a host's own disk.
        disk_rate: bytes a second to and from it.
        factorises: operations of float64 a second of its processor in a Cholesky factorisation.
        multiplies: those in the product of a packed matrix and a few vectors.
        network: bytes a second of a host from and to others.
        price: of a host and hour, in any currency.
    """

    count: int
    pairs: float
    memory: float
    disk: float
    disk_rate: float
    factorises: float
    multiplies: float
    network: float
    price: float


class Plan(NamedTuple):
    """What a regression takes.

    Attributes:
        call: which function.
        where: in which a host keeps its part of the matrices.
        kept: bytes of that part.
        moved: bytes that a host moves to others and from them in an iteration.
        matrix_seconds: until all pairs are computed.
        iteration_seconds: of each iteration; 0 without any.
        seconds: in all.
        cost: of all hosts for that time.
    """

    call: Call
    where: Literal["memory", "disk"]
    kept: float
    moved: float
    matrix_seconds: float
    iteration_seconds: float
    seconds: float
    cost: float


def plan(
    n: int,
    hosts: Hosts,
    *,
    test: int = 10_000,
    targets: int = 10,
    iterations: int = ITERATIONS,
    centres: int = 4000,
) -> Plan:
    """Returns the call for n training examples on these hosts, and what it takes.

    The factorisation where one host has the memory for it and takes no longer than all hosts for
    the iterations; else these, with the matrix in half of the memory or on disk, sharded over the
    hosts, or of one host a factor on disk where that is faster; where the matrix fits neither,
    centres. `choose_solver` decides so on the machine it runs on.

    Args:
        n: training examples.
        hosts: where.
        test: test examples.
        targets: numbers to predict.
        iterations: of `regress_cg`; they grow as the ridge falls.
        centres: of `regress_nystrom`, where the matrix cannot be kept.

    Raises:
        InputError: an argument is not accepted.
    """
    counts = {"n": n, "test": test, "targets": targets, "iterations": iterations}
    for name, value in {**counts, "centres": centres, "count": hosts.count}.items():
        require(name, value, integer(1))
    for name in Hosts._fields[1:-1]:
        require(name, getattr(hosts, name), number(0, above=True))
    pairs = n * (n + 1) / 2 + n * test
    whole, share = _ENTRY * n * (n + test), _ENTRY * n * (n / 2 + test) / hosts.count
    vectors, product = _VECTOR * n * 6 * targets, 2 * n**2 * targets
    in_memory = share + vectors <= hosts.memory / 2
    moved = 4 * _VECTOR * n * targets if hosts.count > 1 else 0.0
    iteration = product / (hosts.count * hosts.multiplies)
    if not in_memory:
        iteration = max(iteration, share / hosts.disk_rate)
    iteration += moved / hosts.network
    factorised = n**3 / 3 / hosts.factorises
    if whole + _VECTOR * n**2 <= hosts.memory and factorised <= iterations * iteration:
        return _plan("regress", "memory", hosts, pairs, whole, factorised)
    rows = choose_rows(n, hosts.memory)
    moved_for_factor = _ENTRY * (n**3 / (6 * rows) + n**2 / 2)
    corrected = max(factorised / FASTER_IN_FLOAT32, moved_for_factor / hosts.disk_rate)
    corrected += PRODUCTS * iteration
    both = share + _ENTRY * n**2 / 2
    if hosts.count == 1 and both <= hosts.disk and corrected < iterations * iteration:
        return _plan("regress_cg with a factor", "disk", hosts, pairs, both, corrected)
    if in_memory or (share <= hosts.disk and vectors <= hosts.memory):
        where = "memory" if in_memory else "disk"
        found = _plan("regress_cg", where, hosts, pairs, share, iterations * iteration)
        return found._replace(moved=moved, iteration_seconds=iteration)
    one = hosts._replace(count=1)
    sums = 2 * n * centres**2 / hosts.factorises
    return _plan("regress_nystrom", "memory", one, n * centres, _VECTOR * 4 * centres**2, sums)


def _plan(
    call: Call,
    where: Literal["memory", "disk"],
    hosts: Hosts,
    pairs: float,
    kept: float,
    solve_seconds: float,
) -> Plan:
    """Returns the plan of a call that moves nothing."""
    matrix = pairs / (hosts.count * hosts.pairs)
    if where == "disk":
        matrix = max(matrix, kept / hosts.disk_rate)
    seconds = matrix + solve_seconds
    cost = hosts.count * hosts.price * seconds / 3600
    return Plan(call, where, kept, 0.0, matrix, 0.0, seconds, cost)
