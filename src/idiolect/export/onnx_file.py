"""A graph as an ONNX file, without a byte that the runtime does not need; the only module that needs `onnx`."""

import hashlib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from idiolect.errors import UserMistake
from idiolect.export.onnx_functions import DOMAIN, FOUR_BITS, FUNCTIONS, OF_THE_CALL, RUNTIME, Body, Function, Node
from idiolect.export.onnx_graph import INPUT, OUTPUT, Graph, short_names

DIGEST = "sha256"
_OPSET, _IR_VERSION = 15, 8  # old enough for onnxruntime 1.17 and for what devices run, new enough for functions


def serialize(graph: Graph, shape: Sequence[int], classes: int, about: Mapping[str, str]) -> bytes:
    """The graph as an ONNX file that takes `images` (N, *shape) and gives `logits` (N, classes), and is valid."""
    onnx = _library()
    make, floats = onnx.helper, onnx.TensorProto.FLOAT
    operations = {node.operation for node in graph.nodes}
    called = [function for name, function in FUNCTIONS.items() if name in operations]
    model = make.make_model(
        make.make_graph(
            [_node(onnx, node) for node in graph.nodes],
            "idiolect",
            [make.make_tensor_value_info(INPUT, floats, ["N", *shape])],
            [make.make_tensor_value_info(OUTPUT, floats, ["N", classes])],
            [_tensor(onnx, values, name) for name, values in graph.constants.items()],
        ),
        producer_name="idiolect",
        opset_imports=[
            make.make_opsetid("", _OPSET),
            *([make.make_opsetid(DOMAIN, 1)] if called else []),
            *([make.make_opsetid(RUNTIME, 1)] if FOUR_BITS in operations else []),
        ],
        functions=[_function(onnx, function) for function in called],
        ir_version=_IR_VERSION,
    )
    onnx.checker.check_model(model, full_check=True)
    return with_digest(model, about)


def with_digest(model: Any, about: Mapping[str, str]) -> bytes:
    """The file of a model that says what is told about it, and the SHA-256 of all else, its texts among it."""
    del model.metadata_props[:]
    for key, value in sorted(about.items()):
        model.metadata_props.add(key=key, value=value)
    found = hashlib.sha256(model.SerializeToString(deterministic=True)).hexdigest()
    model.metadata_props.add(key=DIGEST, value=found)
    return model.SerializeToString(deterministic=True)


def read_texts(path: Path) -> dict[str, str]:
    """What a file says of itself; a mistake if it is no ONNX file, or not what was written."""
    onnx = _library()
    try:
        model = onnx.load_model_from_string(path.read_bytes())
        texts = {entry.key: entry.value for entry in model.metadata_props}
    except OSError as reason:
        raise UserMistake(f"{path} cannot be read: {reason.strerror or reason}") from None
    except Exception:  # protobuf's own, of many kinds
        raise UserMistake(f"{path} is no ONNX file") from None
    told = texts.pop(DIGEST, None)
    if told is None:
        raise UserMistake(f"{path} has no digest, so it cannot be checked")
    again = with_digest(model, texts)
    if {entry.key: entry.value for entry in onnx.load_model_from_string(again).metadata_props}[DIGEST] != told:
        raise UserMistake(f"{path} is damaged: its digest does not match its content")
    return texts


def _library() -> Any:
    try:
        import onnx
    except ImportError:
        raise UserMistake("onnx is not installed; install it by: pip install 'idiolect[onnx]'") from None
    return onnx


def _tensor(onnx: Any, values: np.ndarray, name: str = "") -> Any:
    if values.dtype in (np.float32, np.uint8):
        return onnx.numpy_helper.from_array(values, name)
    # Wide integers are extents and places, mostly small, which ONNX stores in as many bytes as each one needs.
    kind = onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
    return onnx.helper.make_tensor(name, kind, values.shape, values.reshape(-1).tolist())


def _node(onnx: Any, node: Node) -> Any:
    """A node as ONNX has it; `onnx` is handed on, since it is there only if it was asked for."""
    own = {key: _attribute(onnx, value) for key, value in node.attributes.items() if value is not OF_THE_CALL}
    domain = RUNTIME if node.operation == FOUR_BITS else DOMAIN if node.operation in FUNCTIONS else None
    made = onnx.helper.make_node(node.operation, node.inputs, node.outputs, domain=domain, **own)
    for key in _open(node):
        made.attribute.append(onnx.AttributeProto(name=key, ref_attr_name=key, type=onnx.AttributeProto.INTS))
    return made


def _attribute(onnx: Any, value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _tensor(onnx, value)
    return _body(onnx, value) if isinstance(value, Body) else value


def _body(onnx: Any, body: Body) -> Any:
    kinds = onnx.TensorProto
    tell = onnx.helper.make_tensor_value_info
    inputs = [
        tell(name, kinds.UINT8 if name in body.bytes else kinds.FLOAT, shape) for name, shape in body.inputs.items()
    ]
    return onnx.helper.make_graph(
        [_node(onnx, node) for node in body.nodes], "body", inputs, [tell(body.output[0], kinds.FLOAT, body.output[1])]
    )


def _function(onnx: Any, function: Function) -> Any:
    values = dict.fromkeys(chain(function.inputs, *(node.inputs + node.outputs for node in function.nodes)))
    short = dict(zip(values, short_names(), strict=False))
    nodes = [
        node._replace(inputs=tuple(short[v] for v in node.inputs), outputs=tuple(short[v] for v in node.outputs))
        for node in function.nodes
    ]
    return onnx.helper.make_function(
        DOMAIN,
        function.name,
        [short[value] for value in function.inputs],
        [short[function.output]],
        [_node(onnx, node) for node in nodes],
        [onnx.helper.make_opsetid("", _OPSET)],
        [key for node in nodes for key in _open(node)],
    )


def _open(node: Node) -> list[str]:
    return [key for key, value in node.attributes.items() if value is OF_THE_CALL]
