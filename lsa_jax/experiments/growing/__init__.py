"""Chapter 5 of Karp's thesis (2024): which way to grow a Transformer, told early."""
