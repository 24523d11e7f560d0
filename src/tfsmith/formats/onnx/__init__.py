"""ONNX files: written with their weights streamed, and looked into without loading them."""
