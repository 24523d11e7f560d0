"""Tensors without a graph: npz and safetensors."""
