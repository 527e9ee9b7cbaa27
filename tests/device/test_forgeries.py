"""Forged bundles, whose digest is right: what contradicts itself is refused with a sentence and costs nothing."""

import base64
import json
import struct
import tracemalloc
import zlib
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idiolect.device import BundleError, predict, read_bundle
from idiolect.device.bundles import digest, written_header
from idiolect.device.programs import Layer, Operation, Program, read_program, write_program
from tests.device.refusing import refused


class Parts(NamedTuple):
    """A bundle taken apart: its texts, its program, and its two other tensors."""

    texts: dict
    program: Program
    numbers: bytes
    codes: bytes


def taken_apart(whole):
    (length,) = struct.unpack_from("<Q", whole)
    header = json.loads(whole[8 : 8 + length])
    spans = [slice(*header[name]["data_offsets"]) for name in ("program", "numbers", "codes")]
    program, numbers, codes = (whole[8 + length :][span] for span in spans)
    return Parts(header["__metadata__"], read_program(program, len(numbers), len(codes)), numbers, codes)


def deflated(text):
    return base64.b64encode(zlib.compress(text)).decode()


def forged(parts, program=None, header=None):
    """A bundle from parts that may contradict each other, with a digest and a header as right as they can be made."""
    program = write_program(parts.program) if program is None else program
    texts = parts.texts | {"digest": digest(parts.texts, program, parts.numbers, parts.codes)}
    sizes = [len(program), len(parts.numbers), len(parts.codes)]
    text = written_header(texts, sizes) if header is None else header(texts, sizes)
    return struct.pack("<Q", len(text)) + text + program + parts.numbers + parts.codes


def texts(parts, **changed):
    return parts._replace(texts=parts.texts | changed)


def changed(parts, number, operation):
    operations = list(parts.program.operations)
    operations[number] = operation
    return parts._replace(program=parts.program._replace(operations=tuple(operations)))


def test_a_forgery_of_the_right_parts_is_read(path, whole):
    parts = taken_apart(whole)
    assert forged(parts) == whole
    path.write_bytes(forged(parts))
    assert read_bundle(path).about == {"client": "3", "note": "\x1f\t\\"}


def test_a_list_of_layers_may_be_as_long_as_allowed(path, whole):
    parts = taken_apart(whole)
    names = zlib.decompress(base64.b64decode(parts.texts["layers"]))
    path.write_bytes(forged(texts(parts, layers=deflated(names.ljust(2**20)))))
    assert list(read_bundle(path).params) == ["0.weight", "0.bias", "1.weight", "1.bias"]


# The program: dense 3 x 2 in full precision, dense 2 x 2 of three levels.
FORGERIES = [
    (lambda p: texts(p, format="other"), "is not of the format idiolect-bundle"),
    (lambda p: texts(p, version="2"), "has version '2', but this reader knows version '3'"),
    (lambda p: texts(p, more="text"), "must have the texts about, digest"),
    (lambda p: texts(p, about="[1]"), "no JSON table in its metadata under 'about'"),
    (lambda p: texts(p, about="[" * 10**5), "no JSON table in its metadata under 'about'"),
    (lambda p: texts(p, layers="%"), "a list of layers that is not zlib in base64"),
    (lambda p: texts(p, layers="\u00fc" * 4), "a list of layers that is not zlib in base64"),
    (lambda p: texts(p, layers="AAAA"), "a list of layers that is not zlib in base64"),
    (lambda p: texts(p, layers=""), "a list of layers that is cut off"),
    (lambda p: texts(p, layers=deflated(b"[]")[:12]), "a list of layers that is cut off"),
    (lambda p: texts(p, layers=deflated(b"[" + b" " * 2**20 + b"]")), "of layers of more than 1048576 bytes"),
    (lambda p: texts(p, layers=deflated(b"[" * 10**6)), "no JSON list of names"),
    (lambda p: texts(p, layers=deflated(b"\xff\xfe\xfd")), "no JSON list of names"),
    (lambda p: texts(p, layers=deflated(b"{}")), "no JSON list of names"),
    (lambda p: texts(p, layers=deflated(b"[1,2,3,4]")), "no JSON list of names"),
    (lambda p: texts(p, layers=deflated(b'["a","b","c"]')), "has 3 different names for its 4 layers"),
    (lambda p: texts(p, layers=deflated(b'["a","b","c","a"]')), "has 3 different names for its 4 layers"),
    (lambda p: p._replace(numbers=p.numbers[:-4]), "bytes of numbers, but its layers need"),
    (lambda p: p._replace(codes=p.codes + b"\0"), "bytes of codes, but its layers need 2"),
    (lambda p: p._replace(numbers=b"\0\0\x80\x7f" + p.numbers[4:]), "weights in layer '0.weight' that are not finite"),
    (lambda p: p._replace(numbers=b"\0\0\xc0\x7f" + p.numbers[4:]), "weights in layer '0.weight' that are not finite"),
    (
        lambda p: p._replace(numbers=p.numbers[:32] + b"\xff" * 4 + p.numbers[36:]),
        "levels in layer '1.weight' that are",
    ),
    (lambda p: p._replace(codes=b"\xff\0"), "a weight in layer '1.weight' beyond its 3 levels"),
    (lambda p: p._replace(codes=b"\0\1"), "has bits after the last weight of layer '1.weight'"),
    (lambda p: p._replace(program=p.program._replace(divisor=0)), "divides pixels by 0"),
    (lambda p: p._replace(program=p.program._replace(image=(4, 1, 1))), r"a layer of shape (3, 2) for dense"),
    (lambda p: p._replace(program=p.program._replace(image=(2**20, 2**20, 1))), "4194304 is the most"),
    (lambda p: p._replace(program=p.program._replace(image=())), "computes something, but takes no image"),
    (lambda p: changed(p, 0, dense(3, 2, 0, activation=4)), "a setting of dense in its program that there is not"),
    (lambda p: changed(p, 0, Operation("dense", (1,), (None, Layer((8,), 0)))), "a layer of shape () for dense"),
    (lambda p: changed(p, 0, Operation("dense", (1,), (Layer((2, 3), 0), Layer((2,), 0)))), "shape (2, 3) for dense"),
    (lambda p: changed(p, 0, Operation("mean")), "bytes of numbers, but its layers need"),
    (lambda p: changed(p, 1, dense(2, 2, 4)), "bytes of numbers, but its layers need"),
    (lambda p: changed(p, 1, dense(2**20, 2**10, 3)), "a layer in its program that its bytes cannot hold"),
    (lambda p: changed(p, 1, dense(0, 2, 3)), "a layer in its program that its bytes cannot hold"),
    (lambda p: changed(p, 1, dense(2, 2, 513)), "has 257 in its program where 256 is the most"),
    (lambda p: changed(p, 1, dense(2, 2, 257)), "bytes of numbers, but its layers need"),  # one level for each output
    (
        lambda p: changed(p, 1, Operation("hold", (), (Layer((4,), 3, True),))),
        "has levels by output in a layer without outputs",
    ),
]


def dense(rows, columns, levels, activation=1):
    return Operation("dense", (activation,), (Layer((rows, columns), levels), Layer((columns,), 0)))


@pytest.mark.parametrize(("forge", "said"), FORGERIES)
def test_a_forgery_with_the_right_digest_is_refused_with_a_sentence(path, whole, forge, said):
    parts = forge(taken_apart(whole))
    program = as_announced(parts)
    assert said in refused(path, forged(parts, program))


def as_announced(parts):
    """The program, with the sizes of the tensors that there are."""
    told = sum(layer.numbers for layer in parts.program.layers), sum(layer.codes for layer in parts.program.layers)
    program = write_program(parts.program)
    if told == (len(parts.numbers) // 4, len(parts.codes)):
        return program
    sizes = b"".join(number(4 * n) if k == 0 else number(n) for k, n in enumerate(told))
    body = program[5 + len(sizes) :].rstrip(b"\0")
    rest = number(len(parts.numbers)) + number(len(parts.codes)) + body
    return (b"IDM\3" + bytes([-(-(5 + len(rest)) // 8) * 8]) + rest).ljust(-(-(5 + len(rest)) // 8) * 8, b"\0")


def number(value):
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


PROGRAMS = [
    (b"", "has no program"),
    (b"IDX\3\x08\0\0\0", "has no program"),
    (b"IDM\2\x08\0\0\0", "has a program of version 2, but this reader knows version 3"),
    (b"IDM\3\x08\0\0\0", "has a program for tensors of other sizes"),
    (b"IDM\3" + b"\xff" * 12, "has a number in its program that is too large"),
    (b"IDM\3\x08\x34\x02\3", "has a program that is cut off"),
    (b"IDM\3\x10\x34\x02\3\1\1\1\x7f\0\0\0\0", "has 127 in its program where 16 is the most"),
    (b"IDM\3\x10\x34\x02\3\1\1\1\1\x63\0\0\0", "has operation 99 in its program"),
    (b"IDM\3\x10\x34\x02\3\1\1\1\0\1\0\0\0", "has a program that goes on after its end"),
]


@pytest.mark.parametrize(("program", "said"), PROGRAMS)
def test_a_program_that_makes_no_sense_is_refused_with_a_sentence(path, whole, program, said):
    assert said in refused(path, forged(taken_apart(whole), program))


HEADERS = [
    (lambda t, s: written_header(t, s) + b" " * 8, "has a header that no bundle has"),
    (lambda t, s: written_header(t, s).replace(b'"U8"', b'"I8"', 1), "has a header that no bundle has"),
    (lambda t, s: written_header(t, s).replace(b'"shape":[', b'"shape":[-', 1), "has a header that no bundle has"),
    (lambda t, s: written_header(t, [*s[:2], s[2] + 8]), "bytes of data, but its tensors fill"),
    (lambda t, s: written_header(t, [2**50, *s[1:]]), "has a header that no bundle has"),
    (lambda t, s: json.dumps({"__metadata__": t}).encode(), "has a header that no bundle has"),
    (lambda t, s: json.dumps({"__metadata__": t, "codes": [1]}).encode(), "has a header that no bundle has"),
]


@pytest.mark.parametrize(("header", "said"), HEADERS)
def test_a_header_that_does_not_fit_is_refused_with_a_sentence(path, whole, header, said):
    assert said in refused(path, forged(taken_apart(whole), header=header))


def test_a_list_of_layers_that_would_inflate_to_gigabytes_takes_no_memory(path, whole):
    bomb = forged(texts(taken_apart(whole), layers=deflated(b" " * 2**26)))
    tracemalloc.start()
    try:
        assert "a list of layers of more than 1048576 bytes" in refused(path, bomb)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_no_forged_program_leads_to_anything_but_a_refusal(path, whole, data):
    """Any bytes of the program replaced by any others, with the right digest: read and computed, or refused."""
    parts = taken_apart(whole)
    program = bytearray(write_program(parts.program))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(4, len(program) - 1))
        program[place] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 3, 7, 127, 128]))
    path.write_bytes(forged(parts, bytes(program)))
    try:
        bundle = read_bundle(path)
    except BundleError:
        return
    assert sum(leaf.size for leaf in bundle.params.values()) <= 8 * len(whole)
    if np.prod(bundle.program.image) < 10**5:
        predict(bundle, np.zeros((1, *bundle.program.image), np.float32))
