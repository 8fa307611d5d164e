"""Does a neural network learn features, or does it only fit a kernel?

Importing the package itself is cheap: jax comes in with the subpackages that need it
(`data`, `models`, `kernels`, `training`, `experiments`), so that a mistake in a flag or a
configuration is answered before it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lsa_jax.diagnosis import diagnose
    from lsa_jax.diagnosis.coordinate_check import coordinate_check

__version__ = "0.1.0"
__all__ = ["coordinate_check", "diagnose"]


def __getattr__(name: str) -> Any:
    """Imports a function of `__all__`, and jax with it, when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from lsa_jax import diagnosis
    from lsa_jax.diagnosis import coordinate_check

    return diagnosis.diagnose if name == "diagnose" else coordinate_check.coordinate_check
