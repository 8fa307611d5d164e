"""Compositions have the law they state, and depend on (key, example, epoch) alone."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lsa_jax.data.backgrounds import BACKGROUNDS, PLACEMENTS, Composition, compose
from lsa_jax.errors import InputError

SMALL = 4
# Chance that a correct sampler fails one of the tests of its law, over all keys; the key is fixed.
P_VALUE = 1e-3


def make(background="gaussian", placement="random_location", size=2 * SMALL, **options):
    return Composition(SMALL, size, placement, background, **options)


def make_images(count, channels=1, size=SMALL, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 1, (count, size, size, channels)).astype(np.float32)


def make_pool(composition, channels=1, count=7):
    """Returns a pool whose i-th image is of the value i + 1 alone."""
    side = composition.pool_size
    if side is None:
        return None
    values = np.arange(1, count + 1, dtype=np.float32)[:, None, None, None]
    return np.broadcast_to(values, (count, side, side, channels)).copy()


def places(images, size):
    """Returns row and column of images of ones on black."""
    first = np.asarray(images)[..., 0].reshape(len(images), -1).argmax(1)
    return np.stack(np.unravel_index(first, (size, size)), 1)


def uniform(counts):
    return scipy.stats.chisquare(counts).pvalue > P_VALUE


# Every background and every placement, fixed or fresh. Each test of these compiles again.
KINDS = [
    make("gaussian", "random_location", fresh=True),
    make("photographs", "random_location"),
    make("distractors", "random_corner", fresh=True),
    make("none", "fixed_corner"),
]
PAIRS = [
    make(background, placement)
    for background in BACKGROUNDS
    for placement in PLACEMENTS
    if (background, placement) != ("distractors", "random_location")
]


def name(composition):
    return f"{composition.background}-{composition.placement}"


@pytest.fixture(params=KINDS, ids=name)
def composition(request):
    return request.param


def composed(composition, key, images, *, order=slice(None), epoch=0, noise=0.0, **others):
    """Returns images of these numbers, of the pool that the composition takes."""
    index = np.arange(len(images))[order]
    pool = others.pop("pool", make_pool(composition, images.shape[-1]))
    return np.array(
        compose(composition, key, images[order], index, epoch, noise=noise, pool=pool, **others)
    )


SOME = {"images": make_images(23, channels=2), "noise": 0.7, "image_noise": 0.3}


def test_example_is_the_same_in_every_batch_and_order(composition, key):
    whole = composed(composition, key, **SOME)
    for order in (np.random.default_rng(0).permutation(23), slice(5, 6)):
        np.testing.assert_array_equal(composed(composition, key, **SOME, order=order), whole[order])


def test_example_is_the_same_under_jit_vmap_and_scan(composition, key):
    keys, levels = jax.random.split(key, 3), jnp.array([0.0, 0.5, 2.0])
    pool, images = make_pool(composition), make_images(6)

    def one(key, noise, epoch):
        return compose(composition, key, images, jnp.arange(6), epoch, noise=noise, pool=pool)

    def replicas(epoch, _):
        return epoch + 1, jax.vmap(one, (0, 0, None))(keys, levels, epoch)

    _, together = jax.lax.scan(replicas, 4, length=2)
    for epoch, results in enumerate(together, 4):
        for k, noise, result in zip(keys, levels, results, strict=True):
            np.testing.assert_array_equal(result, one(k, noise, epoch))


def test_keys_and_examples_draw_differently(key):
    images = np.ones((400, SMALL, SMALL, 1), np.float32)
    keys = (jax.random.fold_in(key, 0), jax.random.fold_in(key, 1))
    # A corner that is rarely under the image.
    corner = np.stack([composed(make(size=12), k, images, noise=1.0)[:, 0, 0, 0] for k in keys])
    assert len(np.unique(corner[corner != 1])) == (corner != 1).sum()
    for a, b in [(corner[0], corner[1]), (corner[0, 1:], corner[0, :-1])]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(400)


@pytest.mark.parametrize("composition", PAIRS, ids=name)
def test_images_are_pasted_exactly_and_noise_scales_the_background_alone(composition, key):
    images, nines = make_images(50), np.full((50, SMALL, SMALL, 1), 9, np.float32)
    out = composed(composition, key, images, noise=0.5)
    half, one = (composed(composition, key, nines, noise=noise) for noise in (0.5, 1.0))
    pasted = one == 9
    np.testing.assert_array_equal(pasted, half == 9)
    np.testing.assert_array_equal(np.where(pasted, 9, one / 2), half)
    for image, result, mark in zip(images, out, half, strict=True):
        rows, columns, _ = np.nonzero(mark == 9)
        window = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert len(rows) == SMALL * SMALL
        np.testing.assert_array_equal(result[window], image)
        result[window] = mark[window]
        np.testing.assert_array_equal(result, mark)


@pytest.mark.parametrize(
    ("placement", "starts"), [("random_location", range(5)), ("random_corner", (0, 4))]
)
def test_places_are_uniform(placement, starts, key):
    images = np.ones((20_000, SMALL, SMALL, 1), np.float32)
    found = places(composed(make("none", placement), key, images), 2 * SMALL)
    corners, counts = np.unique(found, axis=0, return_counts=True)
    np.testing.assert_array_equal(corners, list(itertools.product(starts, repeat=2)))
    assert uniform(counts)


def test_gaussian_backgrounds_and_noise_on_the_image_have_the_stated_law(key):
    images = np.zeros((300, SMALL, SMALL, 3), np.float32)
    out = composed(make(placement="fixed_corner"), key, images, noise=1.7)
    drawn = np.concatenate([out[:, :4].ravel(), out[:, 4:, :4].ravel()])
    assert scipy.stats.kstest(drawn / 1.7, "norm").pvalue > P_VALUE
    flat = out[:, :4].reshape(300, -1).T  # independent between examples, pixels and channels
    for a, b in [(flat[:, 1:], flat[:, :-1]), (flat[1:], flat[:-1]), (flat[24:], flat[:-24])]:
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 / np.sqrt(a.size)
    images = make_images(500)
    out = composed(make("none", "fixed_corner"), key, images, image_noise=0.4)
    drawn = (out[:, 4:, 4:] - images).ravel()
    assert scipy.stats.kstest(drawn / 0.4, "norm").pvalue > P_VALUE
    assert not out[:, :4].any() and not out[:, :, :4].any()
    # Both at once are independent: they do not come from one stream.
    out = composed(make(placement="fixed_corner"), key, images, noise=1.0, image_noise=0.4)
    own, behind = (out[:, 4:, 4:] - images).ravel(), out[:, :2].ravel()
    assert abs(np.corrcoef(own, behind)[0, 1]) < 4 / np.sqrt(own.size)


BLACK = np.zeros((7000, SMALL, SMALL, 1), np.float32)


def test_photographs_are_drawn_uniformly_and_scaled(key):
    out = 4 * composed(make("photographs", "fixed_corner"), key, BLACK, noise=0.25)
    drawn = out[:, :1, :1]
    np.testing.assert_array_equal(out[:, :4], np.broadcast_to(drawn, out[:, :4].shape))
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(1, 8))
    assert uniform(counts)


def test_three_distractors_are_drawn_uniformly_and_independently(key):
    out = composed(make("distractors", "fixed_corner"), key, BLACK, noise=0.5)
    cells = 2 * np.stack([out[:, 0, 0, 0], out[:, 0, 4, 0], out[:, 4, 0, 0]])
    for cell in cells:
        assert uniform(np.unique(cell, return_counts=True)[1])
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        table = scipy.stats.contingency.crosstab(cells[a], cells[b]).count
        assert scipy.stats.chi2_contingency(table).pvalue > P_VALUE


def test_distractors_keep_their_pixels_in_place(key):
    pool, images = make_images(1, channels=3), np.full((9, 4, 4, 3), 7.0, np.float32)
    for result in composed(make("distractors", "random_corner"), key, images, noise=0.5, pool=pool):
        cells = [result[r : r + 4, c : c + 4] for r in (0, 4) for c in (0, 4)]
        others = [cell for cell in cells if not (cell == 7).all()]
        assert len(others) == 3
        np.testing.assert_array_equal(others, [pool[0] / 2] * 3)


WRONG_COMPOSITION = [
    ((5, 4, "fixed_corner", "none"), "image_size"),
    ((2, 4, "centre", "none"), "placement"),
    ((2, 5, "fixed_corner", "distractors"), "background_size"),
    ((2, 4, "random_location", "distractors"), "placement"),
    ((2, 4, "fixed_corner", "none", "no"), "fresh"),
    ((2, 4, "fixed_corner", "none", False, 1), "transparent"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("arguments, field", WRONG_COMPOSITION)
def test_compositions_that_do_not_fit_are_refused(arguments, field):
    with pytest.raises(InputError, match=f"^{field} is"):
        Composition(*arguments)


@pytest.mark.parametrize(
    "background, changes, message",
    [
        ("gaussian", {"images": np.zeros((3, 5, 5, 1))}, "images have shape"),
        ("gaussian", {"pool": np.zeros((3, 8, 8, 1))}, "pool is given"),
        ("photographs", {"pool": None}, "pool is None"),
        ("distractors", {"pool": np.zeros((3, 8, 8, 1))}, "pool has shape"),
        ("gaussian", {"key": jax.random.key(0, impl="rbg")}, "generator rbg"),
        ("gaussian", {"noise": -1.0}, "^noise is -1.0; accepted"),
        ("photographs", {"noise": float("nan")}, "^noise is nan; accepted"),
        ("gaussian", {"image_noise": -1}, "^image_noise is -1.0; accepted"),
    ],
)
def test_data_that_do_not_fit_the_composition_are_refused(background, changes, message, key):
    composition = make(background, "random_corner")
    given = {"key": key, "images": np.zeros((3, 4, 4, 1)), "index": np.arange(3)}
    given |= {"pool": make_pool(composition), "noise": 1.0} | changes
    with pytest.raises(InputError, match=message):
        compose(composition, epoch=0, **given)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_transparent_image_lets_the_background_through_where_it_is_black(key, placement):
    images = make_images(9)
    images[:, 1:3, :2] = 0
    both = (make(placement=placement, transparent=transparent) for transparent in (False, True))
    plain, seen = (composed(one, key, images, noise=0.5, image_noise=0.1) for one in both)
    behind = make(placement=placement, transparent=True)
    empty = composed(behind, key, np.zeros_like(images), noise=0.5)
    differs = plain != seen
    assert (differs.reshape(9, -1).sum(axis=1) == 4).all()  # the black pixels
    np.testing.assert_allclose(seen[differs], empty[differs], rtol=1e-6)
