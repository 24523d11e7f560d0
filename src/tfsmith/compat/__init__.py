"""F7: TensorFlow's own tools by their own flags, without TensorFlow. Each file only calls `api`."""
