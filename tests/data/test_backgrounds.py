"""Compositions have the law they state, and depend on (key, example, epoch) alone."""

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


def compose_some(composition, key, *, count=23, order=slice(None), epoch=0, noise=0.7):
    images = make_images(count, channels=2)
    return compose(
        composition,
        key,
        images[order],
        np.arange(100, 100 + count)[order],
        epoch,
        noise=noise,
        image_noise=0.3,
        pool=make_pool(composition, channels=2),
    )


# Dependence on key, example and epoch.


def test_example_is_the_same_in_every_batch_and_order(composition, key):
    whole = np.asarray(compose_some(composition, key))
    order = np.random.default_rng(0).permutation(23)
    np.testing.assert_array_equal(compose_some(composition, key, order=order), whole[order])
    np.testing.assert_array_equal(compose_some(composition, key, order=slice(5, 6)), whole[5:6])


def test_example_is_the_same_under_jit_vmap_and_scan(composition, key):
    keys = jax.random.split(key, 3)
    levels = jnp.array([0.0, 0.5, 2.0])
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
    composition = make(size=12)
    images = np.ones((400, SMALL, SMALL, 1), np.float32)
    draws = [
        np.asarray(compose(composition, k, images, np.arange(400), 0, noise=1.0))
        for k in (jax.random.fold_in(key, 0), jax.random.fold_in(key, 1))
    ]
    corner = np.stack([draw[:, 0, 0, 0] for draw in draws])  # rarely under the image
    assert len(np.unique(corner[corner != 1])) == (corner != 1).sum()
    for a, b in [(corner[0], corner[1]), (corner[0, 1:], corner[0, :-1])]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(400)


@pytest.mark.parametrize("composition", PAIRS, ids=name)
def test_noise_level_scales_what_is_drawn_and_moves_nothing(composition, key):
    half, one = (
        np.asarray(
            compose(
                composition,
                key,
                np.full((50, SMALL, SMALL, 1), 9, np.float32),
                np.arange(50),
                2,
                noise=noise,
                pool=make_pool(composition),
            )
        )
        for noise in (0.5, 1.0)
    )
    pasted = one == 9
    np.testing.assert_array_equal(pasted, half == 9)
    np.testing.assert_array_equal(np.where(pasted, 9, one / 2), half)


@pytest.mark.parametrize("composition", PAIRS, ids=name)
def test_image_is_pasted_exactly_and_the_background_is_untouched_elsewhere(composition, key):
    images, pool = make_images(50), make_pool(composition)
    index = np.arange(50)
    out = np.array(compose(composition, key, images, index, 3, noise=0.5, pool=pool))
    # The same draws, with an image that marks its place.
    marked = np.asarray(
        compose(composition, key, np.full_like(images, 99), index, 3, noise=0.5, pool=pool)
    )
    for image, result, mark in zip(images, out, marked, strict=True):
        rows, columns, _ = np.nonzero(mark == 99)
        window = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
        assert len(rows) == SMALL * SMALL
        np.testing.assert_array_equal(result[window], image)
        result[window] = mark[window]
        np.testing.assert_array_equal(result, mark)


def where(placement, key, count=20_000):
    images = np.ones((count, SMALL, SMALL, 1), np.float32)
    composition = make("none", placement)
    return places(compose(composition, key, images, np.arange(count), 0, noise=0.0), 2 * SMALL)


def test_random_location_is_uniform_over_all_positions(key):
    rows, columns = where("random_location", key).T
    counts = np.zeros((5, 5), int)
    np.add.at(counts, (rows, columns), 1)
    assert uniform(counts.ravel())


def test_random_corner_is_uniform_over_the_four_corners(key):
    corners, counts = np.unique(where("random_corner", key), axis=0, return_counts=True)
    np.testing.assert_array_equal(corners, [[0, 0], [0, 4], [4, 0], [4, 4]])
    assert uniform(counts)


def test_gaussian_background_has_the_stated_law(key):
    composition = make(placement="fixed_corner", size=8)
    images = np.zeros((300, SMALL, SMALL, 3), np.float32)
    out = np.asarray(compose(composition, key, images, np.arange(300), 0, noise=1.7))
    drawn = np.concatenate([out[:, :4].ravel(), out[:, 4:, :4].ravel()])
    assert scipy.stats.kstest(drawn / 1.7, "norm").pvalue > P_VALUE
    flat = out[:, :4].reshape(300, -1).T  # independent between examples, pixels and channels
    for a, b in [(flat[:, 1:], flat[:, :-1]), (flat[1:], flat[:-1]), (flat[24:], flat[:-24])]:
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 4 / np.sqrt(a.size)


def test_noise_on_the_image_has_the_stated_law_and_stays_on_the_image(key):
    composition = make("none", "fixed_corner")
    images = make_images(500)
    out = np.asarray(
        compose(composition, key, images, np.arange(500), 0, noise=0.0, image_noise=0.4)
    )
    drawn = (out[:, 4:, 4:] - images).ravel()
    assert scipy.stats.kstest(drawn / 0.4, "norm").pvalue > P_VALUE
    assert not out[:, :4].any()
    assert not out[:, :, :4].any()


def test_photographs_are_drawn_uniformly_and_scaled(key):
    composition = make("photographs", "fixed_corner")
    images = np.zeros((7000, SMALL, SMALL, 1), np.float32)
    pool = make_pool(composition)
    out = np.asarray(compose(composition, key, images, np.arange(7000), 0, noise=0.25, pool=pool))
    drawn = out[:, 0, 0, 0] * 4
    np.testing.assert_array_equal(
        out[:, :4] * 4, np.broadcast_to(drawn[:, None, None, None], out[:, :4].shape)
    )
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(1, 8))
    assert uniform(counts)


def test_three_distractors_are_drawn_uniformly_and_independently(key):
    composition = make("distractors", "fixed_corner")
    images = np.zeros((7000, SMALL, SMALL, 1), np.float32)
    pool = make_pool(composition)
    out = np.asarray(compose(composition, key, images, np.arange(7000), 0, noise=0.5, pool=pool))
    cells = 2 * np.stack([out[:, 0, 0, 0], out[:, 0, 4, 0], out[:, 4, 0, 0]])
    for cell in cells:
        assert uniform(np.unique(cell, return_counts=True)[1])
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        table = scipy.stats.contingency.crosstab(cells[a], cells[b]).count
        assert scipy.stats.chi2_contingency(table).pvalue > P_VALUE


def test_distractors_keep_their_pixels_in_place(key):
    composition = make("distractors", "random_corner")
    pool = make_images(1, channels=3)
    out = np.asarray(
        compose(composition, key, np.full((9, 4, 4, 3), 7.0), np.arange(9), 0, noise=0.5, pool=pool)
    )
    for result in out:
        cells = [result[r : r + 4, c : c + 4] for r in (0, 4) for c in (0, 4)]
        image = [bool((cell == 7).all()) for cell in cells]
        assert sum(image) == 1
        for cell, is_image in zip(cells, image, strict=True):
            if not is_image:
                np.testing.assert_array_equal(cell, pool[0] / 2)


WRONG_COMPOSITION = [
    ((5, 4, "fixed_corner", "none"), "image_size"),
    ((2, 4, "centre", "none"), "placement"),
    ((2, 5, "fixed_corner", "distractors"), "background_size"),
    ((2, 4, "random_location", "distractors"), "placement"),
]


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
    ],
)
def test_data_that_do_not_fit_the_composition_are_refused(background, changes, message, key):
    composition = make(background, "random_corner")
    given = {"key": key, "images": np.zeros((3, 4, 4, 1)), "index": np.arange(3)}
    given |= {"pool": make_pool(composition)} | changes
    with pytest.raises(InputError, match=message):
        compose(composition, epoch=0, noise=1.0, **given)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_transparent_image_lets_the_background_through_where_it_is_black(key, placement):
    images = make_images(9)
    images[:, 1:3, :2] = 0
    plain, seen = (
        np.asarray(
            compose(
                make(placement=placement, transparent=transparent),
                key,
                images,
                np.arange(9),
                0,
                noise=0.5,
                image_noise=0.1,
            )
        )
        for transparent in (False, True)
    )
    empty = compose(
        make(placement=placement, transparent=True),
        key,
        np.zeros_like(images),
        np.arange(9),
        0,
        noise=0.5,
    )
    differs = plain != seen
    assert (differs.reshape(9, -1).sum(axis=1) == 4).all()  # the black pixels
    np.testing.assert_allclose(seen[differs], np.asarray(empty)[differs], rtol=1e-6)


def test_epochs_differ_only_when_fresh(key):
    fixed, fresh = make(), make(fresh=True)
    first, second = (np.asarray(compose_some(fixed, key, epoch=epoch)) for epoch in (0, 1))
    np.testing.assert_array_equal(first, second)
    first, again, second = (
        np.asarray(compose_some(fresh, key, epoch=epoch)) for epoch in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != second).any((1, 2, 3)).all()
