"""Change of activations in a few steps, by width and parameterisation."""
