"""Shi, Wei and Liang, Feature Learning (ICLR 2022)."""
