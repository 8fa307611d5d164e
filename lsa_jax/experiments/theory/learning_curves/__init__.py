"""Errors against the number of examples: predicted from spectra, and measured."""
