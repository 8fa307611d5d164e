"""Reporting: files of runs, claims, tables, figures and pages."""
