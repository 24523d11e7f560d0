"""Conformance: whether an engine computes each op as TensorFlow does. `python -m tfsmith.testing.conformance ENGINE`.

The cases are in `tfsmith.ops.samples`; TensorFlow's answers are packed beside this file, so it is not needed here.
"""
