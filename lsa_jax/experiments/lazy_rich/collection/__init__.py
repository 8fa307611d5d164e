"""Lazy or rich of many networks and tasks, by one call each."""
