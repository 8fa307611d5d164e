"""The lemmas behind theorem 1, checked on the population loss."""
