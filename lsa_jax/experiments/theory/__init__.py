"""Theory next to measurement, on the data of the papers."""
