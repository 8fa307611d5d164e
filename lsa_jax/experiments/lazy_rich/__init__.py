"""Lazy or rich: what learns features, on the data of all papers."""
