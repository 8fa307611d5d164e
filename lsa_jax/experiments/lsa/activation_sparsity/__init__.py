"""How sparse activations become while a network trains (figure 2)."""
