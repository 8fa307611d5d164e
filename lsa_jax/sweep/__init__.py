"""What runs experiments: their settings, the points of a sweep, running and resuming them."""
