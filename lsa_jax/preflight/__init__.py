"""What a configuration would compile for a machine that is not there, and what it would take."""
