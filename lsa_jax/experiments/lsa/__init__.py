"""Karp et al., Local Signal Adaptivity (NeurIPS 2021), and chapter 3 of Karp's thesis (2024)."""
