"""The best learning rate, by width and parameterisation."""
