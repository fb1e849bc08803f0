"""Masks that cancel in a sum and in nothing else.

Proof: docs/proofs/secure_sums.md, "Masks".

Every pair of parties on a roster agrees on a key that neither the coordinator nor anybody else
knows, and turns it into a stream of words that one adds and the other subtracts. The keys are made
for one sum, signed by the parties' pinned identities, bound to everything that names the sum, used
once and forgotten.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from confrere.errors import InvalidParameter, OperationRefused

Words = NDArray[np.uint64]

_PURPOSE = b"confrere secure sum, version 1"
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class SumContext:
    """Everything that names one attempt at one sum; two attempts never share a stream."""

    #: SHA-256 digests, in hex: of the study that all agreed to, and of the question asked
    study: str
    run: str  #: Name of the run
    step: int  #: Which sum of the run, and which time it is tried
    attempt: int
    question: str

    def __post_init__(self) -> None:
        for name in ("study", "question"):
            if not _DIGEST.fullmatch(getattr(self, name)):
                raise InvalidParameter(f"{name} must be a SHA-256 digest in hex.")
        if self.step < 0 or self.attempt < 0:
            raise InvalidParameter("step and attempt must be at least 0.")

    @property
    def digest(self) -> bytes:
        """The context's name, 32 bytes."""
        named = [self.study, self.run, self.step, self.attempt, self.question]
        return hashlib.sha256(_PURPOSE + json.dumps(named).encode()).digest()


@dataclass(frozen=True)
class Announcement:
    """A party's word that it is ready: a key for one sum, signed by its identity."""

    party: str  #: Whose it is
    key: bytes  #: The public half of a key made for this sum, 32 bytes
    signature: bytes  #: By the party's identity, over the context, its name and the key; 64 bytes

    @classmethod
    def read(cls, party: str, told: object) -> Self:
        """Read what :meth:`plain` wrote; anything else is no announcement."""
        texts = told if isinstance(told, list) else []
        try:
            key, signature = (bytes.fromhex(text) for text in texts)
        except (TypeError, ValueError):
            key, signature = b"", b""
        if (len(key), len(signature)) != (32, 64):
            raise OperationRefused("a key for this sum, or its signature, is none.", "roster")
        return cls(party, key, signature)

    @property
    def plain(self) -> list[str]:
        """Key and signature as texts, for a message."""
        return [self.key.hex(), self.signature.hex()]

    def verify(self, context: SumContext, identity: Ed25519PublicKey) -> None:
        """Refuse a key that this identity did not sign for this sum."""
        try:
            identity.verify(self.signature, _announced(context, self.party, self.key))
        except InvalidSignature:
            raise OperationRefused(
                f"{self.party}: its key for this sum is not signed by the identity that the study "
                "names.",
                "identity",
            ) from None


@dataclass(eq=False)
class SumKey:
    """One party's secret for one sum. It agrees once, and is gone.

    Use :meth:`make`.
    """

    context: SumContext
    party: str
    announcement: Announcement
    _secret: X25519PrivateKey | None = field(repr=False)

    @classmethod
    def make(cls, context: SumContext, party: str, identity: Ed25519PrivateKey) -> Self:
        """Return a fresh key, announced in the party's name."""
        secret = X25519PrivateKey.generate()
        public = secret.public_key().public_bytes_raw()
        signature = identity.sign(_announced(context, party, public))
        return cls(context, party, Announcement(party, public, signature), secret)

    @property
    def used(self) -> bool:
        """Whether it has agreed, and is gone."""
        return self._secret is None

    def agree(
        self,
        roster: Sequence[Announcement],  # Everyone in this sum, oneself included
        identities: Mapping[str, Ed25519PublicKey],  # Who the study says they are
        *,
        fewest: int,  # Parties that the noise was calibrated for; a shorter roster is refused
    ) -> Masks:
        """Check the roster and agree with everyone on it; works once, and touches no data.

        Raises OperationRefused if the roster is not one of distinct, signed parties of the study,
        or the key was used before.
        """
        self._check(roster, identities, fewest)
        secret, self._secret = self._secret, None
        if secret is None:
            raise OperationRefused("this key has been used: every sum needs a new one.", "repeated")
        bound = _roster_digest(self.context, roster)
        keys = {
            one.party: _pair_key(secret, one, bound) for one in roster if one.party != self.party
        }
        return Masks(self.party, keys)

    def _check(
        self,
        roster: Sequence[Announcement],
        identities: Mapping[str, Ed25519PublicKey],
        fewest: int,
    ) -> None:
        names = [one.party for one in roster]
        if len(set(names)) != len(names) or len({one.key for one in roster}) != len(names):
            raise OperationRefused("the roster names a party or a key twice.", "roster")
        if len(names) < fewest:
            raise OperationRefused(
                f"the roster has {len(names)} parties; the noise needs {fewest}.", "roster"
            )
        if self.announcement not in roster:
            raise OperationRefused("the roster does not contain this party's own key.", "roster")
        for one in roster:
            if one.party not in identities:
                raise OperationRefused(f"{one.party} is not a party of the study.", "roster")
            one.verify(self.context, identities[one.party])


class Masks:
    """What one party agreed on with every other; hides one vector, and is gone."""

    def __init__(self, party: str, keys: Mapping[str, bytes]) -> None:
        self._party = party
        self._keys: Mapping[str, bytes] | None = keys

    def hide(self, vector: Words) -> Words:
        """Return the vector under a stream for every other party; works once."""
        keys, self._keys = self._keys, None
        if keys is None:
            raise OperationRefused("these masks have hidden a vector already.", "repeated")
        hidden = np.array(vector, dtype=np.uint64)
        for other, key in keys.items():
            stream = _stream(key, len(hidden))
            hidden = hidden + stream if self._party < other else hidden - stream
        return hidden


@dataclass(eq=False)
class Masking:
    """A party's side of the masks: who it is, who the others are, and keys not used yet.

    Keys are in memory alone: whoever restarts between saying that it is ready and sending its
    share has lost its key, refuses, and has told nothing.
    """

    party: str  #: Whose side it is
    identity: Ed25519PrivateKey = field(repr=False)  #: Its own
    identities: Mapping[str, Ed25519PublicKey]  #: Who the study says that everybody is
    _waiting: dict[tuple[str, str, int], SumKey] = field(default_factory=dict, repr=False)

    def ready(self, operation: str, context: SumContext) -> Announcement:
        """Return a key for a sum: the same one until it is used, a fresh one for another sum."""
        place = (context.run, operation, context.attempt)
        waiting = self._waiting.get(place)
        if waiting is None or waiting.used or waiting.context != context:
            waiting = SumKey.make(context, self.party, self.identity)
            self._waiting[place] = waiting
        return waiting.announcement

    def agree(
        self, operation: str, context: SumContext, roster: Sequence[Announcement], *, fewest: int
    ) -> Masks:
        """Check the roster, and use up the key that was made for this sum."""
        place = (context.run, operation, context.attempt)
        waiting = self._waiting.get(place)
        if waiting is None or waiting.context != context:
            raise OperationRefused(
                "this party holds no key for this sum: it was restarted, or never asked whether it "
                "is ready. Nothing was spent on it; try again with new keys.",
                "not-ready",
            )
        masks = waiting.agree(roster, self.identities, fewest=fewest)
        del self._waiting[place]
        return masks


def add_masked(uploads: Sequence[Words]) -> Words:
    """Return the sum modulo 2^64, in which all masks have cancelled."""
    return np.asarray(np.stack(uploads).sum(axis=0, dtype=np.uint64))


def _announced(context: SumContext, party: str, key: bytes) -> bytes:
    return _PURPOSE + context.digest + key + party.encode()


def _roster_digest(context: SumContext, roster: Sequence[Announcement]) -> bytes:
    digest = hashlib.sha256(context.digest)
    for one in sorted(roster, key=lambda one: one.party):
        digest.update(hashlib.sha256(one.party.encode()).digest() + one.key)
    return digest.digest()


def _pair_key(secret: X25519PrivateKey, peer: Announcement, bound: bytes) -> bytes:
    try:
        shared = secret.exchange(X25519PublicKey.from_public_bytes(peer.key))
    except ValueError:
        raise OperationRefused(f"{peer.party}: its key for this sum is no key.", "roster") from None
    ends = sorted([secret.public_key().public_bytes_raw(), peer.key])
    return HKDF(hashes.SHA256(), 32, salt=bound, info=_PURPOSE + b"".join(ends)).derive(shared)


def _stream(key: bytes, size: int) -> Words:
    """Return ``size`` words; the key is used for nothing else, so the counter starts at zero."""
    cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(cipher.update(bytes(8 * size)), dtype="<u8").astype(np.uint64)
