"""Hinge loss of features that stay as they were drawn."""
