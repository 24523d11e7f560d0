"""F5: ONNX out of a graph without variables, one lowering per op. The only folder that imports onnx-ir."""
