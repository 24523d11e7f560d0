"""F5: what runs models. The only folder that imports OpenVINO and TensorFlow, and only when one of them is to run."""
