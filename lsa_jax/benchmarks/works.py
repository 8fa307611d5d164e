"""What the suites measure, by name: known before anything is built."""

_CNN, _FC = "CNN 42 x 42", "3-layer FC"
_POOLED = "CNN with global average pooling, 16 x 16"

WORKS: dict[str, tuple[str, ...]] = {
    "kernels": (
        *(
            f"infinite NTK, {network}, {which}"
            for network in (_CNN, _FC, _POOLED)
            for which in ("train-train", "test-train")
        ),
        *(
            f"finite NTK, CNN width {width}, {what}"
            for width in (1, 4)
            for what in ("trace over logits", "all logits")
        ),
        *(
            f"linearised training, CNN {size}{how}"
            for size in ("42 x 42", "16 x 16")
            for how in ("", ", from Python")
        ),
        "solving, ridge regression",
        "solving, gradient flow at 3 times",
    ),
    "stability": ("logistic regression on S and S'",),
}
