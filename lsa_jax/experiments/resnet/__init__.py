"""Allen-Zhu and Li, What Can ResNet Learn Efficiently (NeurIPS 2019)."""
