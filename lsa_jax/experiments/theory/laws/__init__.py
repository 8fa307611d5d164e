"""Laws of the rich regime: the best rate, grokking, and the edge of stability."""
