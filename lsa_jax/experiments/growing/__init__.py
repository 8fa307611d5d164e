"""Chapter 5 of Karp's thesis (2024): the best way to grow a Transformer, found early."""
