"""How much activations change in a few steps, at every width and in every parameterisation."""
