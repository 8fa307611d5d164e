"""Checks of the machine at hand: numbers, files and rates, each against an independent result.

A check that raises is failed, with the error's first line. `CHECKS` lists them with the remedy of
each; `examine` runs them.
"""

import contextlib
import functools
import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from lsa_jax import backend, costs, kernels, models, training
from lsa_jax.costs import CHIPS, Chip, Count
from lsa_jax.data import images
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.preflight import programs
from lsa_jax.preflight.dry_run import DryRun, Mapped
from lsa_jax.reporting import locks
from lsa_jax.reporting.machine import count_cores
from lsa_jax.training import checkpoints

# Largest relative error of float32 sums of a thousand products; TF32's and bfloat16's are larger.
_FLOAT32, _TF32, _FLOAT64 = 1e-5, 2e-3, 1e-10

_LEAST_ROOM = 1e9  # bytes of a disk: a few checkpoints of the larger networks
_EPOCHS, _BATCH = 5, 64

# A data sheet's rates are never reached in full; below these shares something else is wrong.
_LEAST_OF_PEAK, _LEAST_OF_CORES = 0.3, 0.5


class Finding(NamedTuple):
    """The result of a check, with the check's name and the seconds that it took."""

    good: bool
    words: str  # the measurement, in a line
    numbers: dict[str, Any] = {}  # the same for programs; plain JSON values
    name: str = ""
    remedy: str = ""  # advice where it failed
    seconds: float = 0.0


class Check(NamedTuple):
    """A check, called with a folder to write into, and the advice where it fails."""

    name: str
    run: Callable[[Path], Finding]
    remedy: str


def examine(checks: Sequence[Check], folder: Path) -> Iterator[Finding]:
    """Yields the findings of checks, each as soon as it is run; files are left in the folder."""
    for check in checks:
        start = time.monotonic()
        try:
            found = check.run(folder)
        except Exception as error:
            text = str(error).splitlines() or [""]
            found = Finding(False, f"{type(error).__name__}: {text[0]}")
        remedy, seconds = "" if found.good else check.remedy, round(time.monotonic() - start, 2)
        yield found._replace(name=check.name, remedy=remedy, seconds=seconds)


def as_text(finding: Finding, *, color: bool) -> str:
    """Returns a finding for a terminal: a line, and below it the advice where it failed."""
    mark, code = ("ok", 32) if finding.good else ("FAILED", 31)
    shown = f"\033[{code}m{mark:6}\033[0m" if color else f"{mark:6}"
    line = f"{shown} {finding.name:15} {finding.words} ({finding.seconds:.1f} s)"
    return line if finding.good else f"{line}\n{'':23}to do: {finding.remedy}"


def _versions(folder: Path) -> Finding:
    """Compares installed packages with the accepted versions."""
    about = importlib.metadata.metadata("lsa_jax")
    here = {"python": platform.python_version()}
    wrong = [] if here["python"] in SpecifierSet(about["Requires-Python"]) else ["python"]
    for requirement in map(Requirement, about.get_all("Requires-Dist") or []):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            here[requirement.name] = version = importlib.metadata.version(requirement.name)
            if not requirement.specifier.contains(version, prereleases=True):
                wrong.append(f"{requirement.name} {version} ({requirement.specifier})")
    shown = ", ".join(f"{name} {here[name]}" for name in ("python", "jax", "numpy", "scipy"))
    words = f"not accepted: {', '.join(wrong)}" if wrong else f"{shown} and {len(here) - 4} others"
    return Finding(not wrong, words, here)


# Devices of a system that JAX may not see: NVIDIA's, AMD's, a TPU's.
_DEVICE_FILES = ("/dev/nvidia0", "/dev/kfd", "/dev/accel0", "/dev/vfio/0")


def _devices(folder: Path) -> Finding:
    """Looks for accelerators that JAX does not use."""
    devices, memory = jax.devices(), backend.memory()
    unused = [file for file in _DEVICE_FILES if backend.is_cpu() and os.path.exists(file)]
    words = f"{len(devices)} x {devices[0].device_kind}, {count_cores()} cores"
    words += "" if memory is None else f", {memory / 1e9:.1f} GB each for JAX"
    words += f"; JAX does not use {', '.join(unused)}" if unused else ""
    numbers = {"kind": devices[0].device_kind, "count": len(devices), "memory": memory}
    return Finding(not unused, words, numbers | {"cores": count_cores(), "unused": unused})


def _error(found: Any, exact: np.ndarray) -> float:
    return float(np.abs(np.asarray(found, np.float64) - exact).max() / np.abs(exact).max())


def _precision(folder: Path) -> Finding:
    """Compares products of matrices and convolutions with numpy's in float64."""
    a, b = np.random.default_rng(0).standard_normal((2, 256, 1024)).astype(np.float32)
    window = b[:9].reshape(3, 3, 64, 16)
    pictures = a.reshape(16, 16, 16, 64)
    patches = np.lib.stride_tricks.sliding_window_view(pictures, (3, 3), (1, 2)).astype(np.float64)
    exact = a.astype(np.float64) @ b.T.astype(np.float64)
    convolved = np.einsum("nhwcij,ijco->nhwo", patches, window.astype(np.float64), optimize=True)
    layout = ("NHWC", "HWIO", "NHWC")
    errors = {}
    for name, precision in (("default", None), ("highest", "highest")):
        product = jnp.matmul(a, b.T, precision=precision)
        conv = lax.conv_general_dilated(
            pictures, window, (1, 1), "VALID", dimension_numbers=layout, precision=precision
        )
        errors[name] = max(_error(product, exact), _error(conv, convolved))
    with jax.enable_x64(True):
        double = jnp.matmul(a.astype(np.float64), b.T.astype(np.float64), precision="highest")
        errors["float64"] = _error(double, exact)
    kind = "float32" if errors["default"] < _FLOAT32 else "TF32"
    kind = kind if errors["default"] < _TF32 else "bfloat16"
    words = f"errors: in full precision {errors['highest']:.0e}, in the default {kind} "
    words += f"{errors['default']:.0e}, in float64 {errors['float64']:.0e}"
    good = errors["highest"] < _FLOAT32 and errors["float64"] < _FLOAT64
    return Finding(good, words, errors | {"default_kind": kind})


_HIDDEN, _CLASSES = 64, 10


def _hidden_layer() -> tuple[models.Model, Float[np.ndarray, "n f"]]:
    """Returns a network of one hidden layer, and examples."""
    layers = [models.Dense(_HIDDEN, w_std=2**0.5), models.Relu(), models.Dense(_CLASSES)]
    x = np.random.default_rng(1).standard_normal((24, 27)).astype(np.float32)
    return models.network(layers), x


def _covariance(x: Float[np.ndarray, "n f"]) -> Float[np.ndarray, "n n"]:
    """Returns the covariance of a hidden unit over weights, in float64."""
    return 2 * x.astype(np.float64) @ x.T.astype(np.float64) / x.shape[1]


def _infinite(folder: Path) -> Finding:
    """Compares the infinite NTK of a hidden layer and a readout with its closed form.

    With standard deviations s of a hidden unit and angles t of the examples, the kernel is
    s s' (sin t + 2 (pi - t) cos t) / (2 pi).
    """
    model, x = _hidden_layer()
    covariance = _covariance(x)
    scale = np.sqrt(np.outer(np.diagonal(covariance), np.diagonal(covariance)))
    angle = np.arccos(np.clip(covariance / scale, -1, 1))
    exact = scale * (np.sin(angle) + 2 * (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    error = _error(kernels.gram(model.kernel, x), exact)
    return Finding(error < _FLOAT32, f"largest error {error:.0e}", {"error": error})


def _finite(folder: Path) -> Finding:
    """Compares the finite NTK of the same network with the product of Jacobians in float64."""
    model, x = _hidden_layer()
    params = model.init(jax.random.key(0), x.shape[1:])
    weight, readout = (
        np.asarray(params[name]["weight"], np.float64) for name in ("Dense_0", "Dense_1")
    )
    hidden = x.astype(np.float64) @ weight * np.sqrt(2 / x.shape[1])
    units = np.maximum(hidden, 0)
    slopes = ((hidden > 0)[..., None] * readout).reshape(len(x), -1)
    of_weight = _covariance(x) * (slopes @ slopes.T) / _CLASSES
    exact = (units @ units.T + of_weight) / _HIDDEN
    error = _error(kernels.gram(kernels.finite_kernel(model.apply, params), x), exact)
    return Finding(error < _FLOAT32, f"largest error {error:.0e}", {"error": error})


def _digits() -> tuple[Dataset, Dataset]:
    """Returns the digits that scikit-learn ships, on black backgrounds of 16 x 16."""
    found = images.load("digits")
    border = ((0, 0), (4, 4), (4, 4), (0, 0))
    train, test = (split._replace(inputs=np.pad(split.inputs, border)) for split in found[:2])
    return train, test


@functools.cache
def _network(width: int) -> tuple[models.Model, optax.GradientTransformation]:
    """Returns a network and its optimiser, the same objects in each call: they compile once."""
    model = models.cnn(width, channels=(32, 64), parameterization="standard")
    return model, optax.sgd(0.1, momentum=0.9)


def _trained(width: int) -> tuple[Any, training.History]:
    """Trains a network a device on digits, by the same code as sweeps."""
    (train, test), (model, optimizer) = _digits(), _network(width)
    return training.train(
        jax.random.split(jax.random.key(0), backend.device_count()),
        model,
        train,
        training.softmax_cross_entropy,
        optimizer,
        epochs=_EPOCHS,
        batch_size=_BATCH,
        evaluation=training.Evaluation(test, every=_EPOCHS),
    )


_first = functools.cache(_trained)


def _training(folder: Path) -> Finding:
    """Trains a small network twice: it has to learn, and to end with the same bits."""
    (params, history), (again, _) = _first(1), _trained(1)
    accuracy = float(history.rows[-1]["test_accuracy"].min())
    pairs = zip(*map(jax.tree.leaves, (params, again)), strict=True)
    same = all(np.array_equal(a, b) for a, b in pairs)
    words = f"test accuracy {accuracy:.2f} after {_EPOCHS} epochs on digits; a second run "
    words += "has the same bits" if same else "ends with other bits"
    return Finding(accuracy > 0.8 and same, words, {"accuracy": accuracy, "repeats": same})


def _checkpoints(folder: Path) -> Finding:
    """Saves 16 MB as training does, and reads them again."""
    tree = {"a": np.random.default_rng(2).standard_normal(2**21), "b": np.arange(5)}
    start = time.monotonic()
    checkpoints.save(folder / "checkpoints", 1, tree)
    restored = checkpoints.restore(folder / "checkpoints", tree)
    seconds, room = time.monotonic() - start, shutil.disk_usage(folder).free
    same = restored is not None and all(np.array_equal(restored[1][n], tree[n]) for n in tree)
    words = f"16 MB saved and read {'' if same else 'with other bits '}in {seconds:.1f} s, "
    words += f"{room / 1e9:.1f} GB are free in {folder.parent}"
    return Finding(same and room > _LEAST_ROOM, words, {"seconds": seconds, "free_bytes": room})


_HOLDER = """
import sys, time
from pathlib import Path
from lsa_jax.reporting import locks
with locks.alone(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def _locks(folder: Path) -> Finding:
    """Lets another process hold a folder; it must be refused here, until that process is killed."""
    held = folder / "held"
    command = [sys.executable, "-c", _HOLDER, str(held)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            if holder.stdout.readline() != "held\n":
                return Finding(False, "another process could not lock a folder")
            try:
                with locks.alone(held):
                    return Finding(False, "two processes held the same folder at the same time")
            except InputError as error:
                if "in use" not in str(error):
                    raise
        finally:
            holder.kill()
    with locks.alone(held):
        return Finding(True, "a folder in use is refused, and free after its process is killed")


def _seconds_waited() -> float:
    """Returns the time that this process's threads have waited for a core; 0 but on Linux."""
    total = 0
    for file in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(FileNotFoundError):  # a thread that has ended
            total += int(file.read_text().split()[1])
    return total / 1e9


def _fastest(function: Callable, *arguments: Array) -> tuple[float, float, float]:
    """Returns the seconds of the fastest of several calls, and the most cores of one.

    Other work on the machine slows single calls, so the fastest counts. Cores are counted twice: as
    the call kept them busy, and with the time that its threads waited for one.
    """
    compiled = jax.jit(function)
    jax.block_until_ready(compiled(*arguments))
    calls = []
    for _ in range(7):
        before = time.process_time(), _seconds_waited(), time.perf_counter()
        jax.block_until_ready(compiled(*arguments))
        after = time.perf_counter(), _seconds_waited(), time.process_time()
        seconds, waited, busy = (b - a for a, b in zip(reversed(before), after, strict=True))
        calls.append((-seconds, busy / seconds, (busy + waited) / seconds))
    seconds, busy, wanted = map(max, zip(*calls, strict=True))
    return -seconds, busy, wanted


def _many(x: Array) -> Array:
    """Multiplies and adds 64 times without leaving the registers, in chains that can overlap."""
    chains = [x + float(i) for i in range(4)]
    for _ in range(15):
        chains = [chain * 0.5 + 1.0 for chain in chains]
    return chains[0] + chains[1] + chains[2] + chains[3]


def _measured_chip() -> tuple[Chip, float, float]:
    """Measures the rates of one device, and the cores that its products keep busy or wait for."""
    side, length = (1024, 2**24) if backend.is_cpu() else (8192, 2**28)
    square, flops, busy, wanted = jnp.ones((side, side)), {}, 0.0, 0.0
    for kind in ("default", "highest", "bfloat16"):
        given = square.astype(jnp.bfloat16) if kind == "bfloat16" else square
        precision = "highest" if kind == "highest" else None
        multiply = functools.partial(jnp.matmul, precision=precision)
        seconds, *cores = _fastest(multiply, given, given)
        flops[kind] = 2 * side**3 / seconds
        busy, wanted = map(max, (busy, wanted), cores)
    array = jnp.ones(length)
    bandwidth = 2 * array.nbytes / _fastest(lambda x: x + 1, array)[0]
    few = array[: length >> 6]
    flops["vector"] = 127 * few.size / _fastest(_many, few)[0]
    kind = jax.devices()[0].device_kind
    return Chip(backend.platform(), kind, backend.memory(), bandwidth, flops), busy, wanted


def _work() -> list[dict[str, Any]]:
    """Times an epoch of training and the tiles of a kernel; returns a row of a benchmark each."""
    width, examples = (1, 500) if backend.is_cpu() else (16, 4000)
    _, history = _first(width)
    recorder = DryRun(without_data=False)
    with backend.noted_by(recorder):
        _trained(width)
    (epoch,) = (p for p, _ in recorder.found if isinstance(p, Mapped) and p.name == "train_epoch")
    count = costs.count_traced(epoch.traced, parts=epoch.num_devices)
    trained = len(_digits()[0].targets) * epoch.num_devices
    seconds = trained / history.throughput.examples_per_second
    row = {"device": jax.devices()[0].device_kind, "tiles": False, "ours_s": seconds}
    row |= {"products": count.products, "others": count.others, "bytes": count.bytes}
    kernel, x = models.cnn().kernel, np.random.default_rng(3).standard_normal((examples, 28, 28, 1))
    tiles = functools.partial(kernels.gram, kernel, x.astype(np.float32))
    return [row, programs.described(tiles) | {"ours_s": costs.timed(tiles)}]


def _throughput(folder: Path) -> Finding:
    """Measures the rates of a device, and the share of them that programs reach."""
    measured, busy, wanted = _measured_chip()
    sheet = next(
        (chip for chip in CHIPS.values() if chip.flops and chip.kind == measured.kind), None
    )
    rows = _work()
    shares = [
        costs.roofline(Count(r["products"], r["others"], r["bytes"], False), sheet or measured)[0]
        / r["ours_s"]
        for r in rows
    ]
    highest, copied = measured.flops["highest"], measured.bandwidth
    words = f"float32 products {highest / 1e9:,.0f} GFLOP/s, memory {copied / 1e9:,.0f} GB/s; an "
    words += f"epoch at {shares[0]:.0%} and a kernel at {shares[1]:.0%} of the roofline"
    if sheet is None:
        least = _LEAST_OF_CORES * count_cores()
        good = wanted > least or not backend.is_cpu()
        words += f"; products keep {busy:.1f} of {count_cores()} cores busy" * backend.is_cpu()
        if good and busy < least and backend.is_cpu():
            words += ", as other processes take the rest: on an idle machine rates are higher"
    else:
        reached = min(highest / sheet.flops["highest"], copied / sheet.bandwidth)
        good = reached > _LEAST_OF_PEAK
        words += f"; {reached:.0%} of the data sheet's rates"
    numbers = {"chip": measured._asdict(), "shares": shares, "calibration": rows}
    return Finding(good, words, numbers)


CHECKS = (
    Check("versions", _versions, "pip install -e . in a new environment"),
    Check(
        "devices", _devices, "pip install 'lsa_jax[cuda]' or 'lsa_jax[tpu]'; unset JAX_PLATFORMS"
    ),
    Check(
        "precision",
        _precision,
        "unset JAX_DEFAULT_MATMUL_PRECISION, ONEDNN_DEFAULT_FPMATH_MODE and fast-math flags in "
        "XLA_FLAGS: kernels need full float32",
    ),
    Check("infinite kernel", _infinite, "see precision; if that is green, report a bug"),
    Check("finite kernel", _finite, "see precision; if that is green, report a bug"),
    Check(
        "training",
        _training,
        "other bits on a GPU: XLA_FLAGS=--xla_gpu_deterministic_ops=true; no learning: precision",
    ),
    Check("checkpoints", _checkpoints, "a --workdir on a disk with room, which you may write"),
    Check(
        "locks",
        _locks,
        "a --workdir on a local disk, or a file system mounted with flock (Lustre: -o flock)",
    ),
    Check(
        "throughput",
        _throughput,
        "end other processes, and compare the cores or the device that you were given with those "
        "that you asked for",
    ),
)
