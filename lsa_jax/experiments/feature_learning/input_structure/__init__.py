"""Effect of the law of the inputs (figures 22 to 26)."""
