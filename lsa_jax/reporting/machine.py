"""Which machine results come from, so that a time means something to a reader."""

import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def _cpu_model() -> str:
    """Returns the processor's name, or else its architecture."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def count_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_host() -> dict[str, Any]:
    """Returns the processor's name, the cores that may be used, GiB of memory, Python's version.

    Accelerators are left out: a look at them would reserve them.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": count_cores(),
        "memory_gib": round(memory / 2**30, 1),
        "python": platform.python_version(),
    }


def kinds(devices: Iterable[str]) -> Counter[str]:
    """Returns how many devices there are of each kind, of names such as "cuda:0 (NVIDIA H100)".

    Tasks on unknown machines, such as "tasks of launch.groups", have no kind.
    """
    parts = (device.rpartition(" (") for device in devices)
    return Counter(kind.removesuffix(")") for _, parenthesis, kind in parts if parenthesis)


def cores(count: int) -> str:
    """Returns a number of cores in words: "1 core", "2 cores"."""
    return f"{count} core" + ("" if count == 1 else "s")


def in_words(host: Mapping[str, Any]) -> str:
    """Returns a host's processor, cores and memory in words."""
    return f"{host['cpu']}, {cores(host['cores'])}, {host['memory_gib']:g} GiB"


def duration(seconds: float) -> str:
    """Returns a time in words: "27 s", "6 min 20 s", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min"


_UNITS = {"h": 3600, "min": 60, "s": 1}
_PART = r"(\d+(?:\.\d+)?) ?(h|min|s)(?![a-z])"
_DURATION = re.compile(rf"(?:{_PART} ?)+")


def seconds(text: str) -> float | None:
    """Returns the seconds of a time as `duration` writes it, or "1h30min"; None of other text."""
    found = _DURATION.fullmatch(text.strip())
    if not found:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, found[0]))
