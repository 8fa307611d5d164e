"""Chapter 2 of Karp's thesis (2024): the effect of one example on the models that SGD learns."""
