"""Transformers. `one_layer` is the theory's: one softmax attention over one-hot tokens."""

from lsa_jax.models.transformer.one_layer import one_layer

__all__ = ["one_layer"]
