"""A client's model as a file for its device: a bundle of packed bits, or an ONNX graph that unpacks them itself.

Nothing is imported here: `contents` is free of I/O, so that runs may report sizes; `reader` can be copied onto a device
alone; and only `onnx_file` needs the optional `onnx`.
"""
