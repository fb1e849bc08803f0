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

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from confrere.errors import OperationRefused
from confrere_federation.parties.answers import Key

Words = NDArray[np.uint64]

_PURPOSE = b"confrere secure sum, version 2"

#: Bytes of the public half of a key, and of a party's word that it is ready: that, and a signature.
_KEY, WORD = 32, 96


@dataclass(frozen=True, kw_only=True)
class SumContext:
    """Everything that names one try at one sum; two tries never share a stream."""

    study: str
    question: str  #: The digest of the request
    key: Key  #: The run, the operation and the try

    @property
    def digest(self) -> bytes:
        named = json.dumps([self.study, self.question, *self.key])
        return hashlib.sha256(_PURPOSE + named.encode()).digest()


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
    _waiting: dict[Key, tuple[SumContext, X25519PrivateKey, bytes]] = field(
        default_factory=dict, repr=False
    )

    def ready(self, context: SumContext) -> bytes:
        """Return a signed key for a sum: the same until it is used, a fresh one for another sum."""
        if self._waiting.get(context.key, (None,))[0] != context:
            secret = X25519PrivateKey.generate()
            public = secret.public_key().public_bytes_raw()
            signature = self.identity.sign(_announced(context, self.party, public))
            self._waiting[context.key] = context, secret, public + signature
        return self._waiting[context.key][2]

    def agree(
        self,
        context: SumContext,
        roster: Mapping[str, bytes],  # What everyone in this sum has sent who is ready
        *,
        fewest: int,  # Parties that the noise was calibrated for; a shorter roster is refused
        most: int,  # and a longer one
    ) -> Masks:
        """Check the roster, agree with everyone on it and use up the key; touches no data.

        Raises OperationRefused if the roster is not one of distinct, signed parties of the study,
        or there is no key for this sum, or no more.
        """
        if self._waiting.get(context.key, (None,))[0] != context:
            raise OperationRefused(
                "this party holds no key for this sum: it was restarted, used it, or was never "
                "asked whether it is ready. Nothing was spent on it; try again with new keys.",
                "not-ready",
            )
        _, secret, own = self._waiting[context.key]
        keys = {name: word[:_KEY] for name, word in roster.items()}
        if len(set(keys.values())) < len(keys):
            raise OperationRefused("the roster names a key twice.", "roster")
        if not fewest <= len(keys) <= most:
            raise OperationRefused(
                f"the roster has {len(keys)} parties; the noise is for {fewest} to {most}.",
                "roster",
            )
        if roster.get(self.party) != own:
            raise OperationRefused("the roster does not contain this party's own key.", "roster")
        for name, word in roster.items():
            if name not in self.identities or len(word) != WORD:
                raise OperationRefused(f"{name} is not a party of the study.", "roster")
            try:
                told = _announced(context, name, keys[name])
                self.identities[name].verify(word[_KEY:], told)
            except InvalidSignature:
                raise OperationRefused(
                    f"{name}: its key for this sum is not signed by the identity that the study "
                    "names.",
                    "identity",
                ) from None
        del self._waiting[context.key]
        bound = _roster_digest(context, keys)
        del keys[self.party]
        return Masks(self.party, {n: _pair_key(secret, n, key, bound) for n, key in keys.items()})


def add_masked(uploads: Sequence[Words]) -> Words:
    """Return the sum modulo 2^64, in which all masks have cancelled."""
    return np.asarray(np.stack(uploads).sum(axis=0, dtype=np.uint64))


def _announced(context: SumContext, party: str, key: bytes) -> bytes:
    return _PURPOSE + context.digest + key + party.encode()


def _roster_digest(context: SumContext, keys: Mapping[str, bytes]) -> bytes:
    digest = hashlib.sha256(context.digest)
    for name, key in sorted(keys.items()):
        digest.update(hashlib.sha256(name.encode()).digest() + key)
    return digest.digest()


def _pair_key(secret: X25519PrivateKey, name: str, peer: bytes, bound: bytes) -> bytes:
    try:
        shared = secret.exchange(X25519PublicKey.from_public_bytes(peer))
    except ValueError:
        raise OperationRefused(f"{name}: its key for this sum is no key.", "roster") from None
    ends = sorted([secret.public_key().public_bytes_raw(), peer])
    return HKDF(hashes.SHA256(), 32, salt=bound, info=_PURPOSE + b"".join(ends)).derive(shared)
