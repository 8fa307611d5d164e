"""Compiles a configuration's programs for a machine that is not there, and prices them."""
