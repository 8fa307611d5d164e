"""Timings of this package against others that compute the same, in one process."""
