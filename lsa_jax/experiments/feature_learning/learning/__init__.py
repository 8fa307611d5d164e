"""Two steps of feature learning against fixed features (tables 1 to 5)."""
