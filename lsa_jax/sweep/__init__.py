"""Sweeps of experiments: their settings, the points of a sweep, running and resuming them.

`sweep.run_config(config)` is all of it in one call, for notebooks.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lsa_jax.sweep.one_call import run_config

__all__ = ["run_config"]


def __getattr__(name: str) -> Any:
    """Imports `run_config`, and jax with it, when it is first asked for."""
    if name == "run_config":
        from lsa_jax.sweep.one_call import run_config

        return run_config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
