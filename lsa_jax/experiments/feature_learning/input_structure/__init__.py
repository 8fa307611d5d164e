"""What the law of the inputs is worth (figures 22 to 26)."""
