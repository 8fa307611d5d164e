"""Measurements of this package beside what else computes the same, in one process."""
