"""Facts that were learned from records, and what was paid for them.

A schema carries the receipts wherever it goes: what was paid for once is public from then on, and
counts in the total of everything that is learned with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from confrere.errors import SchemaError

if TYPE_CHECKING:
    from confrere.schema.public_schema import PublicSchema

#: What a receipt must say for a price to be known.
_NEEDED = ("ledger_id", "row", "account", "guarantee", "hash", "simulated")


@final
@dataclass(frozen=True)
class PaidFacts:
    """What was learned at one time, and the receipts for it.

    Parameters
    ----------
    learned : mapping of str to sequence of str
        Per column, the keys whose values were learned.
    receipts : mapping of str to mapping
        Per organisation whose records were counted, its receipt as plain values.
    """

    learned: Mapping[str, tuple[str, ...]]
    receipts: Mapping[str, Mapping[str, Any]]

    def __post_init__(self) -> None:
        if not isinstance(self.learned, Mapping) or not isinstance(self.receipts, Mapping):
            raise SchemaError("paid: needs the tables learned and receipts.")
        learned = {}
        written: Mapping[str, Any] = self.learned
        for column, keys in written.items():
            if isinstance(keys, str) or not isinstance(keys, Sequence):
                raise SchemaError("paid.learned: must name a list of facts per column.")
            learned[str(column)] = tuple(map(str, keys))
        if not self.receipts:
            raise SchemaError("paid.receipts: what was paid for has a receipt.")
        for receipt in self.receipts.values():
            lacking = [n for n in _NEEDED if n not in receipt] if _is_table(receipt) else _NEEDED
            price: Any = {} if lacking else receipt["guarantee"]
            if not _is_table(price) or not _is_price(price.get("epsilon")):
                raise SchemaError("paid.receipts: a receipt does not say who paid what.")
        object.__setattr__(self, "learned", dict(sorted(learned.items())))
        object.__setattr__(self, "receipts", _plain(self.receipts))

    @property
    def epsilon(self) -> float:
        """What one record paid: the largest price, as organisations hold different people."""
        return max(float(one["guarantee"]["epsilon"]) for one in self.receipts.values())

    @property
    def simulated(self) -> bool:
        """Whether the noise was seeded, so that nothing with these facts may be released."""
        return any(bool(one["simulated"]) for one in self.receipts.values())

    def __str__(self) -> str:
        told = ", ".join(f"{column} ({', '.join(keys)})" for column, keys in self.learned.items())
        payers = ", ".join(
            f"{one['account']}, row {one['row']}" for one in list(self.receipts.values())[:3]
        )
        more = f" and {len(self.receipts) - 3} more" if len(self.receipts) > 3 else ""
        return f"{told or 'nothing'}: epsilon {self.epsilon:g}, paid by {payers}{more}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "learned": {column: list(keys) for column, keys in self.learned.items()},
            "receipts": dict(self.receipts),
        }

    @classmethod
    def from_dict(cls, values: object) -> PaidFacts:
        """Read what :meth:`to_dict` wrote."""
        if not _is_table(values) or values.keys() != {"learned", "receipts"}:  # type: ignore[attr-defined]
            raise SchemaError("paid: each entry needs learned and receipts, and nothing else.")
        return cls(values["learned"], values["receipts"])  # type: ignore[index]

    def digest(self, schema: PublicSchema) -> str:
        """Return the hash of the values that were learned: what the ledger's row names.

        Empty if the schema has not all of the columns any more.
        """
        facts = {feature.column: feature.to_dict() for feature in schema.features}
        if schema.outcome is not None:
            facts[schema.outcome.column] = schema.outcome.to_dict()
        if not self.learned.keys() <= facts.keys():
            return ""
        values = {
            column: {key: facts[column].get(key) for key in keys}
            for column, keys in self.learned.items()
        }
        text = json.dumps(_plain(values), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_price(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _plain(value: Any) -> Any:
    """Return values as files hold them: sorted, and 1.0 and 1 are one."""
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
