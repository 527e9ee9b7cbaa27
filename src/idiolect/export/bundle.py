"""A client's model as a bundle: a safetensors file of packed bits that `idiolect.device` computes from."""

import base64
import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from idiolect.contracts import Compressed
from idiolect.device.bundles import FORMAT, MOST_TEXT, VERSION, digest, written_header
from idiolect.device.packing import PackedLayer
from idiolect.device.programs import Layer, Operation, Program, write_program
from idiolect.device.signatures import SignatureError, sign
from idiolect.errors import UserMistake
from idiolect.export.plans import Plan, Step
from idiolect.export.stored_layers import stored_layers, whole_layer
from idiolect.files import write_atomically


def write_bundle(
    path: Path, compressed: Compressed, about: Mapping[str, Any], plan: Plan | None = None, key: bytes | None = None
) -> None:
    """Write a client's model, and what the caller tells `about` it, so that it is there whole or not at all.

    Without a plan, the bundle holds weights that nobody knows how to use. With the operator's private key (Ed25519, in
    PEM), it is signed. The file takes what `bundle_size` tells and a header: the text of `about` and some 600 bytes for
    a network of a few layers, 1,500 for a residual network of 20, whose normalization takes half of what it did. Equal
    models are equal files, byte by byte, as long as they are written with the same zlib.
    """
    write_atomically(path, bundle_bytes(compressed, about, plan, key))


def bundle_bytes(
    compressed: Compressed, about: Mapping[str, Any], plan: Plan | None = None, key: bytes | None = None
) -> bytes:
    """A bundle's content."""
    layers = stored_layers(compressed)
    image: tuple[int, ...] = () if plan is None else plan.image
    steps = [Step("hold", (), (name,)) for name in layers] if plan is None else list(plan.steps)
    if plan is not None:
        layers |= {name: whole_layer(values) for name, values in plan.folded.items()}
    names = [name for step in steps for name in step.layers if name is not None]

    def stored(step: Step) -> tuple[Layer | None, ...]:  # a model that is a bare vector has the empty name
        return tuple(None if name is None else layers[name].layer for name in step.layers)

    operations = tuple(Operation(step.operation, step.settings, stored(step)) for step in steps)
    program = write_program(Program(image, 1 if plan is None else plan.divisor, operations))
    return _file(names, [layers[name] for name in names], program, about, key)


def _file(
    names: list[str], layers: list[PackedLayer], program: bytes, about: Mapping[str, Any], key: bytes | None
) -> bytes:
    numbers = b"".join(layer.numbers.astype("<f4").tobytes() for layer in layers)
    codes = b"".join(layer.codes.tobytes() for layer in layers)
    texts = {"format": FORMAT, "version": VERSION, "layers": _listed(names), "about": _compact(dict(about))}
    texts["digest"] = digest(texts, program, numbers, codes)
    if key is not None:
        try:
            texts["signature"] = base64.b64encode(sign(key, texts["digest"])).decode()
        except SignatureError as reason:
            raise UserMistake(f"the operator's key {reason}") from None
    header = written_header(texts, [len(program), len(numbers), len(codes)])
    if len(header) > MOST_TEXT:
        raise UserMistake(f"what is told about the model takes {len(header)} bytes, but may take {MOST_TEXT}")
    return struct.pack("<Q", len(header)) + header + program + numbers + codes


def _listed(names: list[str]) -> str:
    """The names of layers, compressed: those of a deep network repeat each other."""
    text = _compact(names).encode()
    if len(text) > MOST_TEXT:
        raise UserMistake(f"the list of the model's {len(names)} layers is longer than the {MOST_TEXT} bytes it may be")
    return base64.b64encode(zlib.compress(text, 9)).decode()


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
