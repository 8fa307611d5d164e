"""How one filter learns to find a sparse signal (figure 3)."""
