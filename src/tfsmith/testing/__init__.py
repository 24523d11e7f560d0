"""Builders of real TensorFlow models, made without TensorFlow: for tests, benchmarks and the demo.

`tfsmith.testing.models` has the models, `tfsmith.testing.write` puts them on disk as TensorFlow would have.
"""
