"""What no kernel of few features can do (theorem 2)."""
