"""Accuracy and measures of learning from the lazy to the rich end of both dials."""
