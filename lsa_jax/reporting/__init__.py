"""Reporting: what a run leaves on disk, tables, figures and the papers' numbers."""
