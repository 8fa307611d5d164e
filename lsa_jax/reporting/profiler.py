"""A JAX profile of some steps, taken from outside of the training code."""

import threading
from pathlib import Path

import jax

# Seconds after which a profile ends even if the next report has not come: files grow by the second.
LIMIT = 10.0


class Profiler:
    """Traces the program between the first two progress reports of a sweep.

    By the first time programs are compiled, so that the trace, of `LIMIT` seconds at most, shows
    steps. It lies in `<directory>/plugins/profile/`, which TensorBoard's profile plugin (xprof) and
    Perfetto read.
    """

    def __init__(self, directory: Path, limit: float = LIMIT) -> None:
        """Writes nothing yet."""
        self._directory = directory
        self._lock = threading.Lock()
        self._timer = threading.Timer(limit, self._stop)
        self._timer.daemon = True
        self._state = "waiting"

    def report(self) -> None:
        """Takes notice of a report: starts the trace, or ends it."""
        if self._state == "waiting":
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0  # each call of Python would be in it
            jax.profiler.start_trace(self._directory, profiler_options=options)
            self._state = "running"
            self._timer.start()
        else:
            self._stop()

    def _stop(self) -> None:
        with self._lock:  # the timer and a report may come at once
            if self._state == "running":
                jax.profiler.stop_trace()
                self._state = "done"

    def __enter__(self) -> "Profiler":
        return self

    def __exit__(self, *exception: object) -> None:
        self._timer.cancel()
        self._stop()
        if self._state == "done":
            print(f"wrote {self._directory}")
        else:
            print("--profile found nothing to trace: no group of runs reported its progress")
