"""Keeps compiled programs on disk, so that the next command, or the next group, starts sooner.

JAX does this by itself once it has a folder. Half of a short command's time is compilation.
"""

import hashlib
import os
import platform
import warnings
from pathlib import Path

_MOST_BYTES = 2**30  # of a machine's programs; the least recently used ones go first
_LEAST_SECONDS = 0.2  # of a compilation that is worth a file


def _machine() -> str:
    """Returns a name for processors that run the same programs."""
    described = [platform.machine(), platform.processor()]
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        described += sorted({line for line in lines if line.startswith(("flags", "Features"))})
    return hashlib.sha256("\n".join(described).encode()).hexdigest()[:12]


def keep_programs() -> None:
    """Lets JAX, which must not be imported yet, keep this machine's programs in the user's cache.

    The folder is $XDG_CACHE_HOME/lsa_jax/programs, by default below ~/.cache. Machines that share
    it have a folder each: a program may have instructions that another processor lacks. Nothing
    happens where JAX_COMPILATION_CACHE_DIR is set or the folder cannot be written.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        chosen = os.environ.get("XDG_CACHE_HOME")
        if not chosen and not Path.home().is_dir():
            return
        caches = Path(chosen) if chosen else Path.home() / ".cache"
        folder = caches / "lsa_jax" / "programs" / _machine()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or no right to write there
        return
    if os.access(folder, os.W_OK):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(_MOST_BYTES))
        seconds = str(_LEAST_SECONDS)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", seconds)
        # Programs that call oneDNN cannot be written, and damaged files not read: JAX compiles.
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
