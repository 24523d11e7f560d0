"""SavedModel folders and the object graphs of TensorFlow 2."""
