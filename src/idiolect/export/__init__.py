"""A client's model as files for its device: a bundle, which `idiolect.device` reads, an ONNX graph, C.

What a model computes is said once, in `plans`, and every kind of file is written from there. Nothing is imported here,
and only `onnx_file` and `eight_bits` need the optional `onnx`.
"""
