"""The program of a bundle: what a model computes, in bytes that a reader of a page of C understands.

It begins with `IDM` and a version. Everything after that is an unsigned number of seven bits a byte, the lowest first,
where a set eighth bit says that more follow (LEB128):

    bytes of the program, of `numbers` and of `codes`
    height, width and channels of an image; 0 0 0 if the bundle holds weights that nobody knows how to use
    what bytes of pixels are divided by, for inputs between 0 and 1
    how many operations there are, and each operation: its number, its settings, and its layers

A layer is 0 if there is none, else 1 plus its number of levels (1 alone: full precision), and 256 more if every output
has levels of its own; then its number of axes, and its extents. Zeros fill the program up to a multiple of eight bytes.
Images lie as (height, width, channels).
"""

import math
from typing import NamedTuple

MAGIC, VERSION = b"IDM", 3
ACTIVATIONS = ("none", "elu", "relu", "tanh")
MOST_LEVELS = 256
MOST_VALUES = 1 << 22  # of an image, and of whatever is computed from it
_MOST = (1 << 31) - 1
_MOST_AXES = 8


class ProgramError(ValueError):
    """The program makes no sense. The message goes on after the name of the file."""


class Kind(NamedTuple):
    """What follows an operation's number: its settings, and how many layers."""

    settings: tuple[str, ...]
    layers: tuple[str, ...]


KINDS = {
    "hold": Kind((), ("layer",)),  # weights for which the program has no use
    "dense": Kind(("activation",), ("weight", "bias")),
    "convolve": Kind(("stride", "padding", "activation"), ("weight", "scale", "shift")),
    "pool": Kind(("side",), ()),  # maxima; what does not fill a window is left out
    "channels_first": Kind((), ()),
    "mean": Kind((), ()),  # over all pixels
    "keep": Kind((), ()),  # for the next `add`
    "add": Kind(("stride", "before", "activation"), ()),  # every stride-th pixel, after so many channels of zeros
}
_NAMES = tuple(KINDS)


class Layer(NamedTuple):
    """The shape of a layer, how many levels it has (0 in full precision), and whether every output has its own."""

    shape: tuple[int, ...]
    levels: int
    by_output: bool = False

    @property
    def size(self) -> int:
        """How many weights it has."""
        return math.prod(self.shape)

    @property
    def matrix(self) -> tuple[int, int]:
        """Inputs and outputs: kernels have their filters first, matrices their outputs last, others a single output."""
        if len(self.shape) == 4:
            return self.size // self.shape[0], self.shape[0]
        return (self.shape[0], self.shape[1]) if len(self.shape) == 2 else (self.size, 1)

    @property
    def bits(self) -> int:
        """Of an index; at least one."""
        return max(1, (self.levels - 1).bit_length())

    @property
    def codebooks(self) -> int:
        """How many there are, if it has levels."""
        return self.matrix[1] if self.by_output else 1

    @property
    def numbers(self) -> int:
        """How many floats it has in `numbers`."""
        return self.levels * self.codebooks or self.size

    @property
    def codes(self) -> int:
        """How many bytes it has in `codes`: eight weights take as many bytes as one takes bits."""
        return self.bits * -(-self.size // 8) if self.levels else 0


class Operation(NamedTuple):
    """One step of a program, with its settings and layers in the order of its kind."""

    name: str
    settings: tuple[int, ...] = ()
    layers: tuple[Layer | None, ...] = ()


class Program(NamedTuple):
    """Operations on images of this shape, which is empty where there is nothing to compute."""

    image: tuple[int, ...]
    divisor: int
    operations: tuple[Operation, ...]

    @property
    def layers(self) -> list[Layer]:
        """All of them, in order."""
        return [layer for operation in self.operations for layer in operation.layers if layer is not None]


def write_program(program: Program) -> bytes:
    """The program in bytes."""
    body = bytearray()
    for value in (*(program.image or (0, 0, 0)), program.divisor, len(program.operations)):
        body += _number(value)
    for operation in program.operations:
        body += _number(_NAMES.index(operation.name))
        for value in operation.settings:
            body += _number(value)
        for layer in operation.layers:
            body += b"\0" if layer is None else b"".join(map(_number, _described(layer)))
    numbers, codes = sum(layer.numbers for layer in program.layers), sum(layer.codes for layer in program.layers)
    rest = _number(4 * numbers) + _number(codes) + bytes(body)
    # The length counts the bytes that tell it, of which there may be one to five.
    lengths = {width: -(-(len(MAGIC) + 1 + width + len(rest)) // 8) * 8 for width in range(1, 6)}
    whole = next(length for width, length in lengths.items() if len(_number(length)) == width)
    return (MAGIC + bytes([VERSION]) + _number(whole) + rest).ljust(whole, b"\0")


def read_program(content: bytes, numbers: int, codes: int) -> Program:
    """The program in these bytes, for tensors of so many bytes; every extent is held against what there is."""
    if content[:3] != MAGIC or len(content) < 4:
        raise ProgramError("has no program")
    if content[3] != VERSION:
        raise ProgramError(f"has a program of version {content[3]}, but this reader knows version {VERSION}")
    take = _Numbers(content, 4)
    if (take(), take(), take()) != (len(content), numbers, codes):
        raise ProgramError("has a program for tensors of other sizes")
    image, divisor = (take(), take(), take()), take()
    if not divisor:
        raise ProgramError("divides pixels by 0")
    operations = tuple(_operation(take, 2 * numbers + 8 * codes) for _ in range(_within(take(), len(content))))
    if any(content[take.place :]) or len(content) % 8:
        raise ProgramError("has a program that goes on after its end")
    program = Program(image if any(image) else (), divisor, operations)
    for part, found, size in (
        ("numbers", 4 * sum(layer.numbers for layer in program.layers), numbers),
        ("codes", sum(layer.codes for layer in program.layers), codes),
    ):
        if found != size:
            raise ProgramError(f"has {size} bytes of {part}, but its layers need {found}")
    return program


class _Numbers:
    """Reads one number after the other."""

    def __init__(self, content: bytes, place: int) -> None:
        self.content, self.place = content, place

    def __call__(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            if self.place >= len(self.content):
                raise ProgramError("has a program that is cut off")
            byte = self.content[self.place]
            self.place += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return _within(value, _MOST)
        raise ProgramError("has a number in its program that is too large")


def _operation(take: _Numbers, most: int) -> Operation:
    number = take()
    if number >= len(_NAMES):
        raise ProgramError(f"has operation {number} in its program, but operations are 0 to {len(_NAMES) - 1}")
    name = _NAMES[number]
    settings = tuple(take() for _ in KINDS[name].settings)
    return Operation(name, settings, tuple(_layer(take, most) for _ in KINDS[name].layers))


def _layer(take: _Numbers, most: int) -> Layer | None:
    kind = take()
    if not kind:
        return None
    extents, product = [], 1
    for _ in range(_within(take(), _MOST_AXES)):
        extents.append(take())
        product *= extents[-1]
        if not 1 <= product <= most:  # at each extent, so that a long list of huge ones is never multiplied out
            raise ProgramError("has a layer in its program that its bytes cannot hold")
    by_output = kind > 1 + MOST_LEVELS
    if by_output and len(extents) not in (2, 4):
        raise ProgramError("has levels by output in a layer without outputs")
    return Layer(tuple(extents), _within(kind - 1 - by_output * MOST_LEVELS, MOST_LEVELS), by_output)


def _described(layer: Layer) -> list[int]:
    return [1 + layer.levels + layer.by_output * MOST_LEVELS, len(layer.shape), *layer.shape]


def _within(value: int, most: int) -> int:
    if value > most:
        raise ProgramError(f"has {value} in its program where {most} is the most")
    return value


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
