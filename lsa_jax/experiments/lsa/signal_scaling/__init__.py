"""How steps and accuracy grow with the number of patches (theorem 1)."""
