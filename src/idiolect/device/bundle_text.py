"""What is in a bundle, for people."""

from .bundles import Bundle, printable
from .programs import ACTIVATIONS, KINDS, Layer


def describe(bundle: Bundle) -> str:
    """Where a bundle comes from, what it takes, and a line for every operation and layer."""
    program = bundle.program
    lines = [", ".join(printable(f"{key} {value}") for key, value in bundle.about.items())]
    lines.append("signed by the given key" if bundle.signed else "no signature was asked for")
    if program.image:
        extents = " x ".join(map(str, program.image))
        lines.append(f"takes images of {extents} between 0 and 1, which bytes divided by {program.divisor} are")
    names = iter(bundle.layers)
    for operation in program.operations:
        told = dict(zip(KINDS[operation.name].settings, operation.settings, strict=True))
        bend = ACTIVATIONS[told.pop("activation", 0)]
        words = [operation.name, *(f"{key} {value}" for key, value in told.items())]
        if operation.name != "hold":
            lines.append(", ".join([*words, bend] if bend != "none" else words))
        for layer in operation.layers:
            if layer is not None:
                lines.append(_line(next(names), layer))
    return "\n".join(lines)


def _line(name: str, layer: Layer) -> str:
    each = " for each output" if layer.by_output else ""
    width = f"{layer.bits} bits, {layer.levels} levels{each}" if layer.levels else "32 bits"
    return f"  {printable(name):<30} {' x '.join(map(str, layer.shape)) or '1':<20} {width}"
