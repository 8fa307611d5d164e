"""Laws of the rich regime: the best rate, grokking, the edge of stability, scaling in time."""
