"""Networks with and without a recursion of our own."""

from lsa_jax.kernels.infinite.network_shape import is_supported
from lsa_jax.kernels.infinite.pointwise import Dropout, LayerNorm, Relu
from lsa_jax.kernels.infinite.steps import (
    Affine,
    Concat,
    Flatten,
    NeuralTangents,
    Pool,
    Sum,
    Windows,
)

DENSE = Affine(1, 1.0, None, "ntk")
CONV = Affine(1, 1.0, None, "ntk", Windows((3, 3), (1, 1), "SAME"))
HALF = Affine(1, 1.0, None, "ntk", Windows((1, 1), (2, 2), "SAME"))
ZERO = Affine(1, 0.0, None, "ntk")
EACH = Pool(Windows((2, 2), (2, 2), "VALID"))
ALL, FLAT, RELU, NORM, DROP = Pool(), Flatten(), Relu(), LayerNorm(1e-5), Dropout(0.5)
IMAGE, VECTOR = (4, 6, 2), (3,)

SUPPORTED = {
    "dense": ([DENSE, RELU, DENSE], VECTOR),
    "flattened": ([FLAT, DENSE, RELU, DENSE], IMAGE),
    "Gaussian numbers flattened": ([DENSE, FLAT, RELU, DENSE], VECTOR),
    "convolution": ([CONV, RELU, FLAT, DENSE, RELU, DENSE], IMAGE),
    "pools": ([CONV, RELU, EACH, ALL, DENSE, RELU, DENSE], IMAGE),
    "pool of Gaussian features": ([CONV, EACH, RELU, ALL], IMAGE),
    "normalisation of Gaussian features": ([CONV, NORM, RELU, ALL, DENSE], IMAGE),
    "sum": ([CONV, Sum((RELU, CONV), ()), RELU, ALL], IMAGE),
    "sum of two paths": ([CONV, Sum((RELU, HALF), (HALF,)), RELU, ALL], IMAGE),
    "features side by side": ([CONV, Concat(((RELU,), (CONV,))), ALL, DENSE, RELU], IMAGE),
    "one path": ([CONV, Concat(((RELU,),)), ALL, DENSE], IMAGE),
    "dropout": ([DENSE, RELU, DROP, DENSE], VECTOR),
    "dropout before a pool": ([CONV, RELU, DROP, ALL, DENSE], IMAGE),
}
REFUSED = {
    "no weights": ([FLAT], VECTOR),
    "a nonlinearity first": ([RELU, DENSE], VECTOR),
    "weights of size 0": ([DENSE, ZERO], VECTOR),
    "a layer of others": ([DENSE, NeuralTangents(None), DENSE], VECTOR),
    "two nonlinearities": ([DENSE, RELU, RELU, DENSE], VECTOR),
    "a nonlinearity of positions in a row": ([CONV, FLAT, RELU, DENSE], IMAGE),
    "a nonlinearity after dropout": ([DENSE, DROP, RELU, DENSE], VECTOR),
    "a normalisation after a nonlinearity": ([DENSE, RELU, NORM, DENSE], VECTOR),
    "a nonlinearity after a pool of others": ([CONV, RELU, EACH, RELU, ALL], IMAGE),
    "a nonlinearity of features side by side": (
        [DENSE, Concat(((DENSE,), (DENSE,))), RELU, DENSE],
        VECTOR,
    ),
    "features side by side at other positions": (
        [CONV, Concat(((CONV,), (HALF,))), ALL, DENSE],
        IMAGE,
    ),
    "a path that does not apply": ([DENSE, Concat(((RELU, RELU), ())), DENSE], VECTOR),
    "a branch that does not apply": ([DENSE, Sum((RELU, RELU, DENSE), ()), DENSE], VECTOR),
    "a sum of a nonlinearity": ([DENSE, Sum((RELU,), (RELU,)), DENSE], VECTOR),
    "a sum at other positions": ([CONV, Sum((HALF,), ()), ALL, DENSE], IMAGE),
    "dropout before the variances of pools": ([CONV, RELU, DROP, ALL, DENSE, RELU, DENSE], IMAGE),
    "a convolution without positions": ([DENSE, CONV, FLAT], VECTOR),
    "a pool without positions": ([DENSE, ALL], VECTOR),
    "outputs with positions": ([CONV, RELU, CONV], IMAGE),
}


def test_weights_come_first_and_nonlinearities_see_gaussian_features():
    assert {name for name, net in SUPPORTED.items() if not is_supported(*net)} == set()
    assert {name for name, net in REFUSED.items() if is_supported(*net)} == set()
