import json
from io import BytesIO

import numpy as np
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from debias.rows.sealed import LENGTH, Damage, Foreign, OtherVersion, Sealed, seal, unseal

LINE = b"debias test, format 1\n"


def pack(facts, arrays):
    return seal("test", 1, facts, arrays)


def unpack(data):
    return unseal(data, "test", 1)


ARRAYS = npst.arrays(
    st.sampled_from([np.float64, np.int64, np.int32, np.bool_]), npst.array_shapes(min_side=0, max_side=4)
)


@pytest.mark.thorough
@settings(max_examples=100)
@given(st.dictionaries(st.text(max_size=5), ARRAYS, max_size=3))
def test_arrays_come_back_as_they_were(arrays):
    facts, read = unpack(pack({"n": 1}, arrays))
    assert facts == {"n": 1}
    assert list(read) == list(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()  # bit by bit: also NaN and the sign of 0


def test_counts_take_few_bytes():
    counts = np.arange(1000.0) % 200
    assert len(pack({}, {"n": counts})) < 1200
    assert len(pack({}, {"n": counts * 300})) < 4200
    assert len(pack({}, {"n": counts + 0.5})) > 8000


def test_no_damage_goes_unnoticed():
    packed = pack({"n": 1}, {"x": np.linspace(0, 1, 7)})
    for position in range(len(packed)):
        changed = bytearray(packed)
        changed[position] ^= 1
        with pytest.raises(Damage):
            unpack(bytes(changed))
    for size in range(len(packed)):
        with pytest.raises(Damage):
            unpack(packed[:size])
    with pytest.raises(Damage):
        unpack("text")


def forged(entries, body=b"", facts=None):
    """Bytes with a right digest, and any head."""
    return sealed_head(json.dumps([{} if facts is None else facts, entries]).encode(), body)


def sealed_head(head, body=b""):
    rest = len(head).to_bytes(LENGTH, "little") + head + body
    return LINE + blake3(LINE + rest).digest() + rest


@pytest.mark.parametrize(
    "entry",
    [
        ["x", "<f8", "<f8", [2**40]],
        ["x", "<f8", "<u1", [2**62, 2**62]],
        ["x", "<U1000000", "<u1", [1]],
        ["x", "<U1000", "<u1", [1]],
        ["x", "<f8", "<f8", [-1]],
        ["x", "<f8", "<f8", [1.5]],
        ["x", "<f8", "<f8", 3],
        ["x", "|O", "|O", [1]],
        ["x", "nonsense", "<f8", [1]],
        ["x", "<f8"],
        "x",
        ["x", "<f8", "<u1", [1] * 40],
    ],
)
def test_forged_heads_are_refused_before_memory_is_taken(entry):
    with pytest.raises(Damage):
        unpack(forged([entry], b"\0" * 8))


def test_other_forgeries_are_refused():
    for head in ([["x", "<f8", "<f8", [1]]], []):
        with pytest.raises(Damage, match="longer or shorter"):
            unpack(forged(head, b"\0" * 16))
    with pytest.raises(Damage):
        unpack(forged([], facts=[1]))
    with pytest.raises(Damage):
        unpack(sealed_head(b"[" * 100_000))
    with pytest.raises(Damage, match="not one that debias writes"):  # two arrays of one name
        unpack(forged([["x", "|u1", "|u1", [1]], ["x", "|u1", "|u1", [1]]], b"ab"))


def test_other_kinds_and_versions_are_told_from_damage():
    data = seal("test", 2, {}, {})
    assert unseal(data, "test", 2) == ({}, {})
    with pytest.raises(OtherVersion, match="^2$"):
        unseal(data, "test", 1)
    for foreign in (seal("other", 1, {}, {}), b"", b"PK\x03\x04", LINE[:-1], b"\n" * 100, LINE[:6] + bytes(1000)):
        with pytest.raises(Foreign, match="does not say that it holds test"):
            unpack(foreign)


def test_forms_are_known_before_the_arrays_are_read():
    data = bytearray(pack({"n": 1}, {"x": np.arange(5.0), "y": np.zeros((2, 0), dtype=bool)}))
    data[-1] ^= 1
    sealed = Sealed(BytesIO(data), "test", 1)
    assert sealed.facts == {"n": 1}
    assert sealed.forms == {"x": (np.float64, (5,)), "y": (np.bool_, (2, 0))}
    with pytest.raises(Damage, match="digest does not fit"):
        sealed.arrays()
