"""Masks hide an upload, cancel in the sum, and serve once."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats

from confrere.errors import InvalidParameter, OperationRefused
from confrere_federation.parties import masks as masks_module
from confrere_federation.parties.masks import Announcement, SumContext, SumKey, add_masked

STUDY = hashlib.sha256(b"study").hexdigest()
CONTEXT = SumContext(study=STUDY, run="run", step=0, attempt=0, question=STUDY)
NAMES = ["a", "b", "c", "d"]
SECRETS = {name: Ed25519PrivateKey.generate() for name in NAMES}
IDENTITIES = {name: secret.public_key() for name, secret in SECRETS.items()}


def keys(context=CONTEXT, names=NAMES):
    return {name: SumKey.make(context, name, SECRETS[name]) for name in names}


def roster(made):
    return [key.announcement for key in made.values()]


def vectors(size=5):
    return np.random.default_rng(0).integers(0, 2**64, size=(len(NAMES), size), dtype=np.uint64)


def hidden(made, given, announced=None):
    announced = roster(made) if announced is None else announced
    return [
        key.agree(announced, IDENTITIES, fewest=3).hide(vector)
        for key, vector in zip(made.values(), given, strict=True)
    ]


def test_masks_cancel_in_the_sum_and_hide_every_upload():
    given = vectors()
    uploads = hidden(keys(), given)
    assert np.array_equal(add_masked(uploads), given.sum(axis=0, dtype=np.uint64))
    for upload, vector in zip(uploads, given, strict=True):
        assert not np.any(upload == vector)


def test_an_upload_looks_uniform():
    upload = hidden(keys(), np.zeros((4, 20_000), dtype=np.uint64))[0]
    counts = np.bincount(upload.view(np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4


def test_without_one_party_the_others_sum_is_hidden():
    given = np.zeros((4, 20_000), dtype=np.uint64)
    uploads = hidden(keys(), given)
    counts = np.bincount(add_masked(uploads[:3]).view(np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("change", [{"run": "other"}, {"step": 1}, {"attempt": 1}])
def test_two_sums_never_share_a_mask(change):
    nothing = np.zeros((4, 100), dtype=np.uint64)
    first = hidden(keys(), nothing)
    second = hidden(keys(replace(CONTEXT, **change)), nothing)
    again = hidden(keys(), nothing)
    for one, two, three in zip(first, second, again, strict=True):
        assert not np.any(one == two)
        assert not np.any(one == three)  # not even the same context in a new attempt at it


def test_a_key_agrees_once_and_masks_hide_once():
    made = keys()
    masks = made["a"].agree(roster(made), IDENTITIES, fewest=3)
    with pytest.raises(OperationRefused, match="used"):
        made["a"].agree(roster(made), IDENTITIES, fewest=3)
    masks.hide(vectors()[0])
    with pytest.raises(OperationRefused, match="already"):
        masks.hide(vectors()[0])


def test_rosters_that_differ_between_parties_do_not_cancel():
    made, given = keys(), np.zeros((4, 50), dtype=np.uint64)
    short = roster(made)[:3]
    uploads = [made[n].agree(short, IDENTITIES, fewest=3).hide(given[0]) for n in "ab"]
    uploads.append(made["c"].agree(roster(made), IDENTITIES, fewest=3).hide(given[0]))
    assert np.count_nonzero(add_masked(uploads)) == 50


def forged(name):
    made = keys()
    return replace(made[name].announcement, party="b")


def of_another_sum():
    return SumKey.make(replace(CONTEXT, attempt=1), "d", SECRETS["d"]).announcement


def of_low_order():
    signature = SECRETS["d"].sign(masks_module._announced(CONTEXT, "d", bytes(32)))
    return Announcement("d", bytes(32), signature)


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda r: r[:2], "needs 3"),
        (lambda r: [*r, r[0]], "twice"),
        (lambda r: r[1:], "own key"),
        (lambda r: [*r[:3], replace(r[3], party="sybil")], "not a party"),
        (lambda r: [*r[:3], replace(r[3], key=bytes(32))], "not signed"),
        (lambda r: [*r[:3], Announcement("d", r[3].key, bytes(64))], "not signed"),
        (lambda r: [r[0], forged("c"), *r[2:]], "not signed"),
        (lambda r: [*r[:3], of_another_sum()], "not signed"),
        (lambda r: [*r[:3], of_low_order()], "no key"),
    ],
)
def test_a_roster_that_lies_is_refused(spoil, word):
    made = keys()
    with pytest.raises(OperationRefused, match=word):
        made["a"].agree(spoil(roster(made)), IDENTITIES, fewest=3)
    if word != "no key":  # that is found when streams are made, and the key is used by then
        made["a"].agree(roster(made), IDENTITIES, fewest=3)  # else nothing was used up


@pytest.mark.parametrize("change", [{"study": "x"}, {"question": "0" * 63}, {"step": -1}])
def test_a_context_is_named_in_full(change):
    with pytest.raises(InvalidParameter, match=next(iter(change))):
        replace(CONTEXT, **change)


def test_streams_are_bound_to_the_whole_context_and_to_the_roster():
    """The same secrets under another roster, try or question give streams that share nothing."""
    names = ("a", "b", "c")
    own = {name: Ed25519PrivateKey.generate() for name in names}
    identities = {name: key.public_key() for name, key in own.items()}
    facts = {"study": "0" * 64, "run": "r", "step": 0, "attempt": 0, "question": "1" * 64}
    first = SumContext(**facts)
    keys = {name: SumKey.make(first, name, own[name]) for name in names}

    def stream(context, others):
        announced = [
            Announcement(n, keys[n].announcement.key, own[n].sign(_announced(context, n, keys[n])))
            for n in ("a", *others)
        ]
        copy = SumKey(context, "a", announced[0], keys["a"]._secret)
        masks = copy.agree(announced, identities, fewest=2)
        masks._keys = {"b": masks._keys["b"]}  # what it shares with b alone
        return masks.hide(np.zeros(8, dtype=np.uint64))

    def _announced(context, name, key):
        return masks_module._announced(context, name, key.announcement.key)

    other = [SumContext(**(facts | change)) for change in ({"attempt": 1}, {"question": "2" * 64})]
    found = [stream(first, "b"), stream(first, "bc"), *(stream(one, "b") for one in other)]
    np.testing.assert_array_equal(stream(first, "b"), found[0])
    for i in range(len(found)):
        for j in range(i):
            assert not np.any(found[i] == found[j])
