"""Names of the suites' works, which the command checks before anything is built."""

_CNN, _FC = "CNN 42 x 42", "3-layer FC"
_POOLED = "CNN with global average pooling, 16 x 16"

# Of the suite `agreement`: layers between a convolution and a readout, networks, other libraries.
LAYERS = (
    *("Dense", "Relu", "LeakyRelu", "ABRelu", "Abs", "Erf", "Gelu", "Sin", "Cos", "LayerNorm"),
    *("AvgPool", "SumPool", "Dropout", "Concat", "Residual"),
)
NETWORKS = ("3-layer FC", "CNN", "CNN with global average pooling")
FINITE_PEERS = ("neural-tangents", "nngeometry", "torch.func")

# Of the suite `solvers`: pairs of our solver and a peer.
SOLVER_PEERS = {
    f"{ours}, beside {peer}": (ours, peer)
    for ours, peer in (
        ("regress", "scipy in float64"),
        ("regress_cg", "scipy in float64"),
        ("regress_cg", "CoLA"),
        ("regress", "GPJax"),
    )
}

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
    "agreement": (
        *(
            f"infinite {get}, {name}"
            for name in (*(f"layer {layer}" for layer in LAYERS), *NETWORKS)
            for get in ("NTK", "NNGP")
        ),
        *(f"finite NTK, {network}, {peer}" for network in ("FC", "CNN") for peer in FINITE_PEERS),
    ),
    "solvers": tuple(SOLVER_PEERS),
    "training": (
        *("MNIST CNN", "WRN-10-1", "WRN-10-4", "ResNet-20", "linearised WRN-10-1"),
        "Transformer stack",
    ),
    "stability": ("logistic regression on S and S'",),
}
