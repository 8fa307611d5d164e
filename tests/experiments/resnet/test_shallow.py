import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from lsa_jax.errors import InputError
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


@pytest.mark.parametrize("init", ["width", "fans"])
@pytest.mark.parametrize("net", ["2layer", "3layer", "3resnet", "3resnet_full"])
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
    keys = jax.random.split(jax.random.key(0), 30)
    conjugate, ntk = jax.jit(lambda k: jax.tree.map(lambda a: a.mean(0), lax.map(products, k)))(
        keys
    )
    np.testing.assert_allclose(conjugate, model.kernel(X, get="nngp"), rtol=0.06)
    np.testing.assert_allclose(ntk, model.kernel(X), rtol=0.06)


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


def test_what_has_no_limit_has_no_kernel_and_mistakes_are_named():
    assert shallow("3layer_bottleneck", 5, 2).kernel is None
    assert shallow("3layer", 5, 2, init="fan_in").kernel is None
    with pytest.raises(InputError, match="net is 'resnet'; accepted: one of '2layer'"):
        shallow("resnet", 5, 2)
