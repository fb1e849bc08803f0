"""Masks that cancel in a sum and in nothing else (docs/proofs/secure_sums.md, "Masks").

Every pair of parties on a roster agrees on a key that nobody else knows, and turns it into a stream
of words that one adds and the other subtracts. The keys are made for one sum, signed by the
parties' pinned identities, bound to everything that names the sum, used once and forgotten.
"""

from __future__ import annotations

import hashlib
import json
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

from confrere.errors import OperationRefused

Words = NDArray[np.uint64]

_PURPOSE = b"confrere secure sum, version 1"


@dataclass(frozen=True, kw_only=True)
class SumContext:
    """Everything that names one attempt at one sum; two attempts never share a stream."""

    study: str  #: SHA-256 digests, in hex: of the study that all agreed to
    question: str  #: and of the operation and its request
    run: str
    attempt: int

    @property
    def digest(self) -> bytes:
        named = [self.study, self.run, self.attempt, self.question]
        return hashlib.sha256(_PURPOSE + json.dumps(named).encode()).digest()


@dataclass(frozen=True)
class Announcement:
    """A party's word that it is ready: a key for one sum, signed by its identity."""

    party: str
    key: bytes  #: The public half of a key made for this sum, 32 bytes
    signature: bytes  #: By the party's identity, over the context, its name and the key; 64 bytes

    @classmethod
    def read(cls, party: str, told: object) -> Self:
        """Read a key and its signature, in hex; anything else is no announcement."""
        try:
            key, signature = (bytes.fromhex(text) for text in told)  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            key, signature = b"", b""
        if (len(key), len(signature)) != (32, 64):
            raise OperationRefused("a key for this sum, or its signature, is none.", "roster")
        return cls(party, key, signature)

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


@dataclass(eq=False, repr=False)
class Masks:
    """What one party agreed on with every other; hides one vector, and is gone."""

    _party: str
    _keys: Mapping[str, bytes] | None

    def hide(self, vector: Words) -> Words:
        """Return the vector under a stream for every other party; works once."""
        keys, self._keys = self._keys, None
        if keys is None:
            raise OperationRefused("these masks have hidden a vector already.", "repeated")
        hidden = np.array(vector, dtype=np.uint64)
        for other, key in keys.items():
            # The key is used for nothing else, so the counter starts at zero.
            cipher = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
            stream = np.frombuffer(cipher.update(bytes(8 * len(hidden))), "<u8").astype(np.uint64)
            hidden = hidden + stream if self._party < other else hidden - stream
        return hidden


@dataclass(eq=False)
class Masking:
    """A party's side of the masks: who it is, who the others are, and keys not used yet.

    A key is made for one sum, agrees once, and is gone. Keys are in memory alone: whoever restarts
    between saying that it is ready and sending its share has lost its key, refuses, and has told
    nothing.
    """

    party: str
    identity: Ed25519PrivateKey = field(repr=False)
    identities: Mapping[str, Ed25519PublicKey]  #: Who the study says that everybody is
    _waiting: dict[tuple[str, str, int], tuple[SumContext, X25519PrivateKey, Announcement]] = field(
        default_factory=dict, repr=False
    )

    def ready(self, operation: str, context: SumContext) -> Announcement:
        """Return a key for a sum: the same one until it is used, a fresh one for another sum."""
        place = (context.run, operation, context.attempt)
        if self._waiting.get(place, (None,))[0] != context:
            secret = X25519PrivateKey.generate()
            public = secret.public_key().public_bytes_raw()
            signature = self.identity.sign(_announced(context, self.party, public))
            self._waiting[place] = context, secret, Announcement(self.party, public, signature)
        return self._waiting[place][2]

    def agree(
        self,
        operation: str,
        context: SumContext,
        roster: Sequence[Announcement],  # Everyone in this sum, oneself included
        *,
        fewest: int,  # Parties that the noise was calibrated for; a shorter roster is refused
        most: int,  # and a longer one
    ) -> Masks:
        """Check the roster, agree with everyone on it and use up the key; touches no data.

        Raises OperationRefused if the roster is not one of distinct, signed parties of the study,
        or there is no key for this sum, or no more.
        """
        place = (context.run, operation, context.attempt)
        if self._waiting.get(place, (None,))[0] != context:
            raise OperationRefused(
                "this party holds no key for this sum: it was restarted, used it, or was never "
                "asked whether it is ready. Nothing was spent on it; try again with new keys.",
                "not-ready",
            )
        _, secret, own = self._waiting[place]
        names = [one.party for one in roster]
        if len({*names}) + len({one.key for one in roster}) != 2 * len(names):
            raise OperationRefused("the roster names a party or a key twice.", "roster")
        if not fewest <= len(names) <= most:
            raise OperationRefused(
                f"the roster has {len(names)} parties; the noise is for {fewest} to {most}.",
                "roster",
            )
        if own not in roster:
            raise OperationRefused("the roster does not contain this party's own key.", "roster")
        for one in roster:
            if one.party not in self.identities:
                raise OperationRefused(f"{one.party} is not a party of the study.", "roster")
            one.verify(context, self.identities[one.party])
        del self._waiting[place]
        bound = _roster_digest(context, roster)
        others = [one for one in roster if one.party != self.party]
        return Masks(self.party, {one.party: _pair_key(secret, one, bound) for one in others})


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
