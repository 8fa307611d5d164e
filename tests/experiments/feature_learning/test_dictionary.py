import jax
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning import dictionary
from lsa_jax.experiments.feature_learning.streams import Learning

RELEVANT = np.array([1, 4, 6])


@pytest.fixture(scope="module")
def mixture():
    law = dictionary.parity_mixture(8, RELEVANT, 0.5)
    return law, *dictionary.draw_patterns(jax.random.key(0), 4000, law)


def test_labels_count_the_relevant_patterns(mixture):
    _, phi, y = mixture
    np.testing.assert_array_equal(y, np.where(phi[:, RELEVANT].sum(axis=1) % 2 == 1, 1, -1))
    interval = dictionary.count_label(RELEVANT, (1, 2))(phi)
    counts = phi[:, RELEVANT].sum(axis=1)
    np.testing.assert_array_equal(interval, np.where((counts == 1) | (counts == 2), 1, -1))


def test_structure_correlates_relevant_patterns_alone_with_the_label(mixture):
    law, phi, y = mixture
    # Half the examples have phi_A all alike: E[y phi_j] = 1/2 * 1/2 there, and no correlation else.
    expected = np.where(np.isin(np.arange(8), RELEVANT), 0.25, 0.0)
    np.testing.assert_allclose(dictionary.correlations(phi, y), expected, atol=5 * 0.5 / 4000**0.5)
    alike = phi[:, RELEVANT].std(axis=1) == 0
    assert alike.mean() == pytest.approx(0.5 + 0.5 * 0.25, abs=0.04)
    coins = dictionary.without_structure(law)
    phi, y = dictionary.draw_patterns(jax.random.key(1), 4000, coins)
    assert np.abs(dictionary.correlations(phi, y)).max() < 5 * 0.5 / 4000**0.5


@pytest.mark.parametrize("p0", [0.2, 0.6])
def test_the_mixture_leaves_every_pattern_its_probability(p0):
    """Others are there with p0/2 + (1 - p0) p0/(2 - 2 p0) = p0, relevant ones with 1/2."""
    law = dictionary.parity_mixture(8, RELEVANT, p0)
    phi, y = dictionary.draw_patterns(jax.random.key(0), 4000, law)
    relevant = np.isin(np.arange(8), RELEVANT)
    np.testing.assert_allclose(
        phi.mean(axis=0), np.where(relevant, 0.5, p0), atol=4 * 0.5 / 4000**0.5
    )
    gammas = np.where(relevant, (1 - p0) / 2, 0.0)
    np.testing.assert_allclose(dictionary.correlations(phi, y), gammas, atol=5 * 0.5 / 4000**0.5)
    alike = phi[:, RELEVANT].std(axis=1) == 0
    assert alike.mean() == pytest.approx(1 - p0 + p0 / 4, abs=0.04)
    # Where the relevant ones differ all patterns are coins; elsewhere the others are rarer.
    others = phi[:, ~relevant]
    assert others[~alike].mean() == pytest.approx(0.5, abs=4 * 0.5 / (5 * (~alike).sum()) ** 0.5)


@pytest.mark.parametrize("p0", [0.0, 2 / 3])
def test_the_first_part_may_be_absent_or_two_thirds(p0):
    law = dictionary.parity_mixture(8, RELEVANT, p0)
    phi, _ = dictionary.draw_patterns(jax.random.key(0), 4000, law)
    others = phi[:, ~np.isin(np.arange(8), RELEVANT)]
    np.testing.assert_allclose(others.mean(axis=0), p0, atol=4 * 0.5 / 4000**0.5)
    for outside in (-0.01, 2 / 3 + 0.01):
        with pytest.raises(InputError, match="accepted: 0 to 2/3"):
            dictionary.parity_mixture(8, RELEVANT, outside)


def test_unequal_probabilities_give_unequal_correlations():
    law = dictionary.parity_mixture(
        8, RELEVANT, 0.5, probabilities=np.linspace(0.1, 0.9, 8), ones_share=0.8
    )
    phi, y = dictionary.draw_patterns(jax.random.key(0), 4000, law)
    gammas = dictionary.correlations(phi, y)[RELEVANT]
    assert (y > 0).mean() > 0.6 and np.ptp(gammas) > 0.05


def test_the_share_of_negative_labels_is_exact(mixture):
    phi, y = dictionary.draw_patterns(jax.random.key(2), 200, mixture[0], 0.9)
    assert (y < 0).sum() == 180
    np.testing.assert_array_equal(y, mixture[0].label(phi))


def test_hidden_vectors_have_the_label_of_their_vector():
    law = dictionary.hidden_vectors(jax.random.key(0), 30, np.arange(20), 3)
    phi, y = dictionary.draw_patterns(jax.random.key(1), 300, law)
    seen = {tuple(row): label for row, label in zip(phi[:, :20], y, strict=True)}
    assert len(seen) == 6 and sum(seen.values()) == 0
    assert all(seen[tuple(row)] == label for row, label in zip(phi[:, :20], y, strict=True))
    with pytest.raises(InputError, match="a rule of counts"):
        dictionary.without_structure(law)


def test_normalised_inputs_have_length_one_on_average(mixture, key):
    matrix = dictionary.orthonormal_dictionary(key, 12, 8)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(8), atol=1e-5)
    x = np.asarray(dictionary.compose(key, mixture[1], matrix, 0.3))
    mean, scale = dictionary.normalisation(x)
    assert np.square((x - mean) / scale).sum(axis=1).mean() == pytest.approx(1, rel=1e-4)
    # The variances of 8 fair coins, and of the noise in 12 coordinates.
    assert scale**2 == pytest.approx(8 * 0.25 + 12 * 0.09, rel=0.05)


def test_columns_of_an_incoherent_dictionary_are_directions_at_small_products(key):
    matrix = np.asarray(dictionary.incoherent_dictionary(key, 1000, 4))
    np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), 1, rtol=1e-5)
    products = [abs(matrix[:, i] @ matrix[:, j]) for i in range(4) for j in range(i)]
    assert 0 < max(products) < 5 / 1000**0.5


def test_gaussian_clusters_lie_around_the_corners(key):
    centres = dictionary.orthonormal_dictionary(key, 6, 3)
    x, y = dictionary.gaussian_mixture(key, 500, centres, 0.05)
    signs = np.sign(np.asarray(x @ centres))
    np.testing.assert_array_equal(y, signs.prod(axis=1))
    assert np.std(x - signs @ centres.T) == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize(
    ("make", "accepted"),
    [
        (lambda: dictionary.parity_mixture(8, np.arange(4), 0.5), "odd numbers"),
        (lambda: dictionary.parity_mixture(8, RELEVANT, 0.9), "0 to 2/3"),
        (lambda: dictionary.draw_relevant(jax.random.key(0), 4, 5), "1 to the number"),
        (lambda: dictionary.orthonormal_dictionary(jax.random.key(0), 4, 5), "at most 4"),
    ],
)
def test_what_is_not_accepted_is_named(make, accepted):
    with pytest.raises(InputError, match=accepted):
        make()


def _law(draw):
    return dictionary.PatternLaw(1, np.array([0]), draw, None)


def test_the_order_of_a_share_is_independent_of_every_attempt():
    """A law that draws from a child of its key, as any may, must not come out sorted by it."""
    attempts = []

    def draw(key, num_examples):
        attempts.append(key)
        # The first attempts give no example of the class that is asked for; one gives them all.
        y = np.full(num_examples, -1.0 if len(attempts) == found_at else 1.0, np.float32)
        return jax.random.uniform(jax.random.split(key)[1], (num_examples, 1)), y

    for found_at in range(1, 20):
        attempts.clear()
        phi, _ = dictionary.draw_patterns(jax.random.key(0), 400, _law(draw), 1.0)
        assert len(attempts) == found_at
        place = np.corrcoef(np.arange(400), phi[:, 0])[0, 1]
        assert abs(place) < 5 / 400**0.5, f"found at attempt {found_at}: {place}"


def test_no_key_that_is_drawn_from_is_another_draws(monkeypatch):
    """Attempts, their order and the noise of the same split."""
    keys = []

    def draw(key, num_examples):
        keys.append(key)
        return np.zeros((num_examples, 1), np.float32), np.ones(num_examples, np.float32)

    key, permutation = jax.random.key(0), jax.random.permutation

    def ordered(key, num_examples):
        keys.append(key)
        return permutation(key, num_examples)

    monkeypatch.setattr(jax.random, "permutation", ordered)
    dictionary.draw_patterns(key, 10, _law(draw), 0.0)
    with pytest.raises(InputError, match="negative_share"):
        dictionary.draw_patterns(key, 10, _law(draw), 1.0)
    keys = [*keys[1:], jax.random.fold_in(key, Learning.NOISE)]
    assert len({tuple(jax.random.key_data(own).tolist()) for own in keys}) == len(keys) == 102
