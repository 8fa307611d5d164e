"""Which learning rate is best, at every width and in every parameterisation."""
