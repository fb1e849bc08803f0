"""A schema in a request: what rows mean, as everybody can read it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from confrere.errors import InvalidMessage, SchemaError
from confrere.schema import PublicSchema

#: What reading a stranger's schema may raise.
UNREADABLE = (
    SchemaError,
    TypeError,
    ValueError,
    ArithmeticError,
    LookupError,
    AttributeError,
    RecursionError,
)


def sent_schema(schema: PublicSchema) -> NDArray[np.uint8]:
    """Return a schema as bytes of JSON: of many columns, it is longer than a text may be."""
    text = json.dumps(schema.to_dict(), sort_keys=True, separators=(",", ":"))
    return np.frombuffer(text.encode(), dtype=np.uint8)


def received_schema(written: NDArray[Any]) -> PublicSchema:
    """Read the schema of a request.

    Raises
    ------
    InvalidMessage
        If it is none.
    """
    try:
        return PublicSchema.from_dict(json.loads(written.tobytes()))
    except UNREADABLE:
        raise InvalidMessage("schema is not one that can be read.") from None
