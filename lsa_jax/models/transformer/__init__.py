"""Transformers. `one_layer` is the theory's: one softmax attention over one-hot tokens.

`encoder` (BERT's) and `decoder` (UL2's) have any number of layers, in one stack that can grow.
"""

from lsa_jax.models.transformer.one_layer import one_layer
from lsa_jax.models.transformer.stack import TRANSFORMERS, Sizes, Transformer, decoder, encoder

__all__ = ["TRANSFORMERS", "Sizes", "Transformer", "decoder", "encoder", "one_layer"]
