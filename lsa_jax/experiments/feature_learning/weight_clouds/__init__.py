"""How the weights of neurons move while they learn (figures of real data)."""
