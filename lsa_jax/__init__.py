"""Does a neural network learn features, or does it only fit a kernel?

Importing the package itself is cheap: jax comes in with the subpackages that need it
(`data`, `models`, `kernels`, `training`, `experiments`), so that a mistake in a flag or a
configuration is answered before it.
"""

__version__ = "0.1.0"
