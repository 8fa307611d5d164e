import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from lsa_jax.experiments.resnet.shallow import last_features, shallow

X = jnp.array([[1.0, -1.0, 1.0, 1.0], [1.0, 1.0, -1.0, 1.0], [-1.0, 1.0, 1.0, 1.0]])


@pytest.mark.parametrize("bottleneck", ["3resnet", "3layer_bottleneck"])
def test_a_bottleneck_is_a_full_matrix_of_low_rank(key, bottleneck):
    full = {"3resnet": "3resnet_full", "3layer_bottleneck": "3layer"}[bottleneck]
    params = shallow(bottleneck, 6, 2).init(key, (4,))
    u = params["r" if "r" in params else "a"] @ params["v"]
    same = {name: params[name] for name in ("w", "b1", "b2", "a")} | {"u": u}
    expected = shallow(full, 6, 2).apply(same, X)
    np.testing.assert_allclose(shallow(bottleneck, 6, 2).apply(params, X), expected, rtol=1e-5)


def test_a_skip_adds_the_two_layer_network_to_the_three_layer_one(key):
    params = shallow("3resnet_full", 6, 2).init(key, (4,))
    parts = [shallow(net, 6, 2).apply(params, X) for net in ("2layer", "3layer")]
    whole = shallow("3resnet_full", 6, 2).apply(params, X)
    np.testing.assert_allclose(whole, parts[0] + parts[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("net", "init"), [("3resnet", "width"), ("3resnet_full", "fans")])
def test_kernels_are_the_limits_of_wide_networks(net, init):
    model = shallow(net, 600, 1, init=init)

    def products(key):
        params = shallow(net, 600, 1).init(key, (4,))
        if init == "fans" and "u" in params:
            # Its other entries have the same limit, which they are far from at this width.
            params |= {name: params[name] / 2 for name in ("u", "b2")}
        features = last_features(net, params, X)
        slopes = jax.tree.leaves(jax.jacrev(lambda p: model.apply(p, X)[:, 0])(params))
        rows = jnp.concatenate([slope.reshape(len(X), -1) for slope in slopes], axis=1)
        return features @ features.T, rows @ rows.T

    # One draw is several per cent off at this width.
    keys = jax.random.split(jax.random.key(0), 20)
    conjugate, ntk = jax.jit(lambda k: jax.tree.map(lambda a: a.mean(0), lax.map(products, k)))(
        keys
    )
    np.testing.assert_allclose(conjugate, model.kernel(X, get="nngp"), rtol=0.06)
    np.testing.assert_allclose(ntk, model.kernel(X), rtol=0.06)


def relu_moments(v, w, c):
    """Returns E s(z) s(z'), E s'(z) s'(z') and E s(z) E s(z') for variances v, w, covariance c."""
    angle = np.arccos(np.clip(c / np.sqrt(v * w), -1, 1))
    first = np.sqrt(v * w) * (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / (2 * np.pi)
    return first, (np.pi - angle) / (2 * np.pi), np.sqrt(v * w) / (2 * np.pi)


def limit_of_pair(net, x, y, m_variance):
    """Returns both kernels of two inputs: derivatives in A, then in U and b2, then in W and b1."""
    v, w, c = x @ x + 1, y @ y + 1, x @ y + 1
    features, slopes, _ = relu_moments(v, w, c)
    if net == "2layer":
        return features, features + slopes * c
    if net == "3resnet":  # b2 alone is left of the branch, of variance 1
        branch, _, _ = relu_moments(1.0, 1.0, 1.0)
        cross = sum(relu_moments(a, 1.0, 0.0)[2] for a in (v, w))
        conjugate = features + branch + cross
        return conjugate, conjugate + 1 / 2 + slopes * c
    below = np.array([v / 2 + 1, w / 2 + 1, features + 1])  # of h, with the bias
    branch, branch_slopes, _ = relu_moments(*(m_variance * below))
    of_u, of_w = branch_slopes * below[2], m_variance * branch_slopes * slopes * c
    if net == "3layer":
        return branch, branch + of_u + of_w
    cross = sum(relu_moments(a, m_variance * u, 0.0)[2] for a, u in ((v, below[1]), (w, below[0])))
    return features + branch + cross, features + branch + cross + of_u + of_w + slopes * c


@pytest.mark.parametrize(("init", "m_variance"), [("width", 1.0), ("fans", 1 / 4)])
@pytest.mark.parametrize("net", ["2layer", "3layer", "3resnet", "3resnet_full"])
def test_limits_are_products_of_gaussian_expectations_pair_by_pair(net, init, m_variance):
    model = shallow(net, 600, 1, init=init)
    x1, x2 = (np.random.default_rng(seed).normal(size=(n, 4)) for seed, n in ((0, 3), (1, 2)))
    x2[0] = 2 * x1[0]
    expected = np.array([[limit_of_pair(net, x, y, m_variance) for y in x2] for x in x1])
    for place, get in enumerate(("nngp", "ntk")):
        found = model.kernel(*(jnp.asarray(x, jnp.float32) for x in (x1, x2)), get=get)
        np.testing.assert_allclose(found, expected[:, :, place], rtol=2e-3)


def test_initial_entries_have_the_variance_that_is_asked_for(key):
    variances = {
        "width": (1 / 400, 1 / 400, 1 / 400),
        "fan_in": (1 / 16, 1 / 400, 1 / 9),
        "fans": (1 / 24**2, 1 / 23**2, 1 / 23**2),
        "mixed": (1 / 24**2, 1 / 23**2, 1 / 23**2),
    }
    for init, expected in variances.items():
        params = shallow("3layer_bottleneck", 400, 9, init=init).init(key, (16,))
        found = [np.var(params[name]) for name in ("w", "r", "v")]
        np.testing.assert_allclose(found, expected, rtol=0.1)
    for init, expected in {"fans": 1 / 1600, "mixed": 1 / 400}.items():
        square = shallow("3layer", 400, 9, init=init).init(key, (16,))["u"]
        np.testing.assert_allclose(np.var(square), expected, rtol=0.1)
    of_inputs = shallow("2layer", 400, 9, init="mixed").init(key, (400,))["w"]
    np.testing.assert_allclose(np.var(of_inputs), 1 / 1600, rtol=0.1)


def test_networks_without_a_limit_have_no_kernel():
    assert shallow("3layer_bottleneck", 5, 2).kernel is None
    assert shallow("3layer", 5, 2, init="fan_in").kernel is None
