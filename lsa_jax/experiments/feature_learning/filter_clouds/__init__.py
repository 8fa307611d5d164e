"""Clusters of the filters of a ResNet (table 7, figures 20 and 21)."""
