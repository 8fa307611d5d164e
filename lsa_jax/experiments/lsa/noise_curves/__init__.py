"""How accuracy falls as the background gets noisier (figures 4 to 6, table B.1)."""
