"""Masks hide an upload, cancel in the sum, and serve once."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy import stats

from confrere.errors import OperationRefused
from confrere_federation.parties import masks as masks_module
from confrere_federation.parties.answers import Key
from confrere_federation.parties.masks import Masking, SumContext, add_masked

STUDY = hashlib.sha256(b"study").hexdigest()
CONTEXT = SumContext(study=STUDY, question=STUDY, key=Key("run", "sum", 0))
NAMES = ["a", "b", "c", "d"]
SECRETS = {name: Ed25519PrivateKey.generate() for name in NAMES}
IDENTITIES = {name: secret.public_key() for name, secret in SECRETS.items()}


def keys():
    return {name: Masking(name, SECRETS[name], IDENTITIES) for name in NAMES}


def roster(made, context=CONTEXT):
    return {name: one.ready(context) for name, one in made.items()}


def agree(one, announced, context=CONTEXT):
    return one.agree(context, announced, fewest=3, most=4)


def vectors(size=5):
    return np.random.default_rng(0).integers(0, 2**64, size=(len(NAMES), size), dtype=np.uint64)


def hidden(made, given, context=CONTEXT):
    announced = roster(made, context)
    return [
        agree(one, announced, context).hide(vector)
        for one, vector in zip(made.values(), given, strict=True)
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


def test_a_key_agrees_once_and_masks_hide_once():
    made = keys()
    announced = roster(made)
    masks = agree(made["a"], announced)
    with pytest.raises(OperationRefused, match="used"):
        agree(made["a"], announced)
    masks.hide(vectors()[0])
    with pytest.raises(OperationRefused, match="already"):
        masks.hide(vectors()[0])


def of_another_sum():
    return keys()["d"].ready(replace(CONTEXT, key=CONTEXT.key._replace(step=1)))


def of_low_order():
    return bytes(32) + SECRETS["d"].sign(masks_module._announced(CONTEXT, "d", bytes(32)))


def without(roster, *names):
    return {name: word for name, word in roster.items() if name not in names}


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda r: without(r, "c", "d"), "3 to 4"),
        (lambda r: r | {"c": r["b"]}, "twice"),
        (lambda r: without(r, "a"), "own key"),
        (lambda r: without(r, "d") | {"sybil": r["d"]}, "not a party"),
        (lambda r: r | {"d": r["d"][:-1]}, "not a party"),
        (lambda r: r | {"d": r["d"] + b"x"}, "not a party"),
        (lambda r: r | {"d": bytes(32) + r["d"][32:]}, "not signed"),
        (lambda r: r | {"d": r["d"][:32] + bytes(64)}, "not signed"),
        (lambda r: r | {"b": keys()["c"].ready(CONTEXT)}, "not signed"),
        (lambda r: r | {"d": of_another_sum()}, "not signed"),
        (lambda r: r | {"d": of_low_order()}, "no key"),
    ],
)
def test_a_roster_that_lies_is_refused(spoil, word):
    made = keys()
    with pytest.raises(OperationRefused, match=word):
        agree(made["a"], spoil(roster(made)))
    if word != "no key":  # that is found when streams are made, and the key is used by then
        agree(made["a"], roster(made))  # else nothing was used up


def test_streams_are_bound_to_the_whole_context_and_to_the_roster():
    """The same secrets under another roster, try or question give streams that share nothing."""
    own, names = SECRETS, NAMES[:3]
    facts = {"study": "0" * 64, "question": "1" * 64, "key": Key("r", "sum", 0)}
    first = SumContext(**facts)
    keys = {name: Masking(name, own[name], IDENTITIES) for name in names}
    public = {name: one.ready(first)[:32] for name, one in keys.items()}
    (_, secret, _), *_ = keys["a"]._waiting.values()

    def stream(context, others):
        announced = {
            n: public[n] + own[n].sign(masks_module._announced(context, n, public[n]))
            for n in ("a", *others)
        }
        keys["a"]._waiting[context.key] = context, secret, announced["a"]
        masks = keys["a"].agree(context, announced, fewest=2, most=3)
        masks._keys = {"b": masks._keys["b"]}  # what it shares with b alone
        return masks.hide(np.zeros(8, dtype=np.uint64))

    changes = {"key": Key("r", "sum", 1)}, {"question": "2" * 64}
    other = [SumContext(**(facts | change)) for change in changes]
    found = [stream(first, "b"), stream(first, "bc"), *(stream(one, "b") for one in other)]
    np.testing.assert_array_equal(stream(first, "b"), found[0])
    for i in range(len(found)):
        for j in range(i):
            assert not np.any(found[i] == found[j])
