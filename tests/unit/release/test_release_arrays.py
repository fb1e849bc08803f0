from __future__ import annotations

import hashlib
import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from confrere.errors import InvalidParameter, InvalidRelease
from confrere.release import arrays as module
from confrere.release.arrays import frozen_arrays, npz_bytes, read_npz

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,12}", fullmatch=True)
DTYPES = st.sampled_from(["<f8", "<f4", "<i8", "<i4", "|u1", "|b1"])
FINITE = {"allow_nan": False, "allow_infinity": False}
ARRAYS = st.dictionaries(
    NAMES,
    DTYPES.flatmap(
        lambda dtype: npst.arrays(
            dtype,
            npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
            elements=FINITE if "f" in dtype else None,
        )
    ),
    max_size=4,
)


@settings(deadline=None, max_examples=60)
@given(ARRAYS)
def test_arrays_survive_exactly(arrays):
    content = npz_bytes(frozen_arrays(arrays))
    back = read_npz(content)
    assert list(back) == sorted(arrays)
    with np.load(io.BytesIO(content), allow_pickle=False) as numpy_reads:
        for name, array in arrays.items():
            assert back[name].dtype == array.dtype
            assert back[name].shape == array.shape
            assert back[name].tobytes() == array.tobytes()
            assert numpy_reads[name].tobytes() == array.tobytes()
            assert not back[name].flags.writeable


@settings(deadline=None, max_examples=30)
@given(ARRAYS)
def test_bytes_do_not_depend_on_order_or_layout(arrays):
    shuffled = {name: np.array(arrays[name], order="F") for name in reversed(arrays)}
    swapped = {n: a.astype(a.dtype.newbyteorder(">")) for n, a in shuffled.items()}
    content = npz_bytes(frozen_arrays(arrays))
    assert npz_bytes(frozen_arrays(shuffled)) == content
    assert npz_bytes(frozen_arrays(swapped)) == content


def test_bytes_are_those_of_every_other_machine():
    content = npz_bytes(frozen_arrays({"coef": [[0.1, -2.5]], "groups": np.array([1, 2])}))
    digest = "607b158994a4ef71587fd0c087cabb6e6af471c8b9996e6cb923222f10c47b84"
    assert hashlib.sha256(content).hexdigest() == digest


def test_copies_are_taken():
    own = np.array([1.0, 2.0])
    frozen = frozen_arrays({"coef": own})
    own[0] = 9.0
    assert frozen["coef"].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        frozen["coef"][0] = 3.0


@pytest.mark.parametrize(
    "arrays",
    [
        {"coef": np.array([object()])},
        {"coef": np.array(["text"])},
        {"coef": np.array([1j])},
        {"coef": np.array([np.nan])},
        {"coef": np.array([np.inf])},
        {"coef": np.array([1], dtype="datetime64[s]")},
        {"../coef": np.array([1.0])},
        {"": np.array([1.0])},
        {f"a{k}": np.array(1.0) for k in range(5000)},
    ],
)
def test_what_cannot_leave_is_refused(arrays):
    with pytest.raises(InvalidParameter, match="arrays"):
        frozen_arrays(arrays)


def test_size_is_bounded_on_both_sides(monkeypatch):
    content = npz_bytes(frozen_arrays({"coef": np.zeros(200_000)}))
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    with pytest.raises(InvalidParameter, match="at most"):
        frozen_arrays({"coef": np.zeros(200)})
    with pytest.raises(InvalidRelease, match="larger"):
        read_npz(content)


def npy(header: bytes, body: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    padded = header + b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY" + version + len(padded).to_bytes(2, "little") + padded + body


def archive(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as out:
        for name, content in members.items():
            out.writestr(name, content)
    return buffer.getvalue()


F8 = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }"
ONE = npy(F8 % b"1", np.array([1.0]).tobytes())


def saved(writer, **arrays) -> bytes:
    buffer = io.BytesIO()
    writer(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an archive",
        ONE,
        saved(np.savez_compressed, coef=np.zeros(3)),
        saved(np.savez, coef=np.array([{}], dtype=object)),
        saved(np.savez, coef=np.asfortranarray(np.ones((2, 3)))),
        saved(np.savez, coef=np.array([np.nan])),
        saved(np.savez, coef=np.array(["text"])),
        archive({"coef": ONE}),
        archive({"../coef.npy": ONE}),
        archive({"coef.npy": ONE, "run.py": b"print()"}),
        archive({"coef.npy": ONE[:-1]}),
        archive({"coef.npy": ONE + b"\0"}),
        archive({"coef.npy": npy(F8 % b"999999999999")}),
        archive({"coef.npy": npy(F8 % b"-1", np.array([1.0]).tobytes())}),
        archive({"coef.npy": npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }")}),
        archive({"coef.npy": npy(b"__import__('os').getcwd()")}),
        archive({"coef.npy": npy(F8 % b"1", np.array([1.0]).tobytes(), b"\x02\x00")}),
    ],
)
def test_what_was_not_written_here_is_not_read(content):
    with pytest.raises(InvalidRelease, match=r"model\.npz"):
        read_npz(content)


def test_a_plain_archive_of_numpy_is_read():
    assert read_npz(saved(np.savez, coef=np.array([1.0, 2.0])))["coef"].tolist() == [1.0, 2.0]


def test_a_member_twice_is_refused():
    # A name and its twin of the same length, renamed in the finished bytes.
    content = archive({"coef.npy": ONE, "twin.npy": ONE}).replace(b"twin.npy", b"coef.npy")
    with pytest.raises(InvalidRelease, match="member"):
        read_npz(content)
