"""Messages: what is none is refused with a short reason, whatever the bytes are."""

import contextlib
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from idiolect.deploy import wire
from idiolect.deploy.wire import MAGIC, Assembly, Message, WireError, chunk, chunks_of, digest_of, pack, unpack

LIMIT = 2**20


def test_what_is_packed_is_unpacked_with_its_dtypes_and_shapes():
    tensors = {"a": np.float64(3.0), "b": np.zeros((0, 2), np.float32), "c": np.arange(3, dtype=np.int32)}
    header, found = unpack(pack({"turn": 3, "text": "ä"}, tensors), limit=LIMIT)
    assert header == {"turn": 3, "text": "ä"}
    for name, array in tensors.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)


def framed(text: bytes, body: bytes = b"") -> bytes:
    return MAGIC + len(text).to_bytes(4, "little") + text + body


BODY = save({"a": np.zeros(3, np.float32)})
BAD = {
    "nothing": b"",
    "pickle": pickle.dumps({"turn": 3}),
    "another magic": b"IDL9" + pack({})[4:],
    "a header that ends early": pack({"turn": 3})[:-1],
    "a header of four gigabytes": MAGIC + b"\xff\xff\xff\xff{}",
    "no JSON": framed(b"{turn}"),
    "no table": framed(b"[1]"),
    "NaN": framed(b'{"turn": NaN}'),
    "deep nesting": framed(b"[" * 50_000),
    "no UTF-8": framed(b'{"turn": "\xff"}'),
    "arrays without a digest": framed(b"{}", BODY),
    "a wrong digest": framed(json.dumps({"digest": "0" * 64}).encode(), BODY),
    "garbage for arrays": framed(json.dumps({"digest": digest_of(b"garbage")}).encode(), b"garbage"),
    "pickle for arrays": framed(json.dumps({"digest": digest_of(pickle.dumps(1))}).encode(), pickle.dumps(1)),
    "arrays cut short": framed(json.dumps({"digest": digest_of(BODY[:-1])}).encode(), BODY[:-1]),
    "too long": pack({}, {"a": np.zeros(LIMIT, np.uint8)}),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_message_is_refused_with_a_reason(name):
    with pytest.raises(WireError, match=r"too long|malformed|wrong digest"):
        unpack(BAD[name], limit=LIMIT)


@given(st.binary(max_size=300))
def test_no_bytes_do_anything_but_be_refused_or_read(content):
    for one in (content, MAGIC + content, framed(content[:40], content[40:])):
        with contextlib.suppress(WireError):
            assert isinstance(unpack(one, limit=LIMIT), Message)


def test_numbers_that_are_none_are_not_sent():
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack({"score": float("nan")})


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(wire, "CHUNK_BYTES", 10)


@pytest.mark.parametrize("size", [1, 9, 10, 11, 25, 30])
def test_chunks_come_in_any_order_and_twice(small_chunks, size):
    content = bytes(range(size))
    whole = Assembly(digest_of(content), size, limit=100)
    for number in [*reversed(range(chunks_of(size))), 0]:
        assert number in whole.missing or number == 0
        whole.add(number, chunk(content, number))
    assert whole.missing == []
    assert whole.content() == content


def test_chunks_that_lie_are_refused(small_chunks):
    with pytest.raises(WireError, match="too long"):
        Assembly("", 101, limit=100)
    whole = Assembly(digest_of(b"x" * 25), 25, limit=100)
    for number, content in [(-1, b"x" * 10), (3, b"x"), (0, b"x" * 9), (0, b"x" * 11), (2, b"x" * 6)]:
        with pytest.raises(WireError, match="malformed"):
            whole.add(number, content)
    for number in range(3):
        whole.add(number, chunk(b"y" * 25, number))
    with pytest.raises(WireError, match="wrong digest"):
        whole.content()
    assert whole.missing == [0, 1, 2]


def test_a_header_cannot_say_its_own_digest():
    with pytest.raises(ValueError, match="call yours something else"):
        pack({"digest": "0"})
