"""Chapter 4 of Karp's thesis (2024): attention learns decision lists."""
