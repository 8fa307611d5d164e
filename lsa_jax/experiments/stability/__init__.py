"""Chapter 2 of Karp's thesis (2024): what one example changes in what SGD learns."""
