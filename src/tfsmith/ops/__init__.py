"""What is known of TensorFlow's ops, declared once: families, traits, shape functions, values in numpy."""
