from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confrere.errors import InvalidRelease
from confrere.model.strict_json import json_bytes, read_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(st.text("abc"), VALUES, max_size=4))
def test_values_survive_exactly(value):
    assert read_json(json_bytes(value), "card.json") == value


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"1",
        b'{"a": 1, "a": 2}',
        b'{"a": {"b": 1, "b": 1}}',
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1' + b"0" * 30 + b"}",
        b'{"a": 1' + b"0" * 9000 + b"}",
        b'{"a": "\xff"}',
        b'\xef\xbb\xbf{"a": 1}',
        b'{"a": 1} {"b": 2}',
        b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    ],
)
def test_traps_are_refused(content):
    with pytest.raises(InvalidRelease, match=r"card\.json is not"):
        read_json(content, "card.json")
