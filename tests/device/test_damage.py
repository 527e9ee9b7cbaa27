"""Damaged bundles, and files that are none: always a `BundleError` that names the file, never anything else."""

import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.device import BundleError, read_bundle
from tests.device.refusing import refused


def test_a_flipped_bit_is_found_in_every_byte(path, whole):
    for place in range(len(whole)):
        refused(path, whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :])


def test_a_changed_weight_is_found_by_the_digest(path, whole):
    assert "is damaged: its digest does not match" in refused(path, whole[:-1] + bytes([whole[-1] ^ 1]))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_byte_changed_is_found(path, whole, data):
    place, change = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(1, 255))
    refused(path, whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_truncation_is_found(path, whole, data):
    refused(path, whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_whatever_is_cut_out_and_put_in_is_found(path, whole, data):
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 12)))
    put = data.draw(st.one_of(st.binary(max_size=12), st.text(' {}[]",:0123456789eE-\\u', max_size=12).map(str.encode)))
    if put != whole[start:end]:
        changed = whole[:start] + put + whole[end:]
        if changed != whole:
            refused(path, changed)


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_noise_is_no_bundle(path, noise):
    refused(path, noise)
    refused(path, struct.pack("<Q", len(noise)) + noise)


def test_a_file_that_is_no_bundle_is_not_read_to_its_end(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.write(struct.pack("<Q", 16) + b'{"x":1}         ')
        file.truncate(2**33)  # with a hole of eight gigabytes
    tracemalloc.start()
    try:
        assert "is not of the format" in refused(tmp_path / "large", None)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1234", "is too short: 4 bytes cannot hold a header"),
        (
            struct.pack("<Q", 2**63) + b"{}",
            "announces a header of 9223372036854775808 bytes, but has 2 left and may take 1048576",
        ),
        (struct.pack("<Q", 4) + b"{]  ", "has a header that is not JSON"),
        (struct.pack("<Q", 2) + b"\xff\xff", "has a header that is not JSON"),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, "has a header that is not JSON"),
        (struct.pack("<Q", 9999) + b"9" * 9999, "has a header that is not JSON"),
        (struct.pack("<Q", 2) + b"[]", "has a header that is not JSON"),
        (struct.pack("<Q", 3) + b"{ }", "is not of the format idiolect-bundle"),
        (struct.pack("<Q", 2) + b"{}", "is not of the format idiolect-bundle"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_a_sentence(path, content, said):
    assert said in refused(path, content)


def test_a_missing_file_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(BundleError, match="missing cannot be read: No such file or directory"):
        read_bundle(tmp_path / "missing")
