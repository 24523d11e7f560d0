"""Makes the files of this story: a tiny BERT classifier as transformers saved it from TensorFlow, and what to expect.

Needs transformers below 5 with TensorFlow, tf_keras and PyTorch. The model comes from `tools/make_huggingface_pairs.py`
(see tests/data/huggingface/PROVENANCE.md); this adds what TensorFlow answers, for `load.py` to compare with:

    python make_model.py
"""

import json
from pathlib import Path

WORDS = [[2, 7, 11, 3], [2, 5, 19, 3]]


def main() -> None:
    """Writes what the TensorFlow model answers."""
    import numpy
    import transformers

    model = transformers.TFBertForSequenceClassification.from_pretrained(".")
    answers = model(numpy.array(WORDS)).logits.numpy().tolist()
    made = {"words": WORDS, "logits": answers, "made by": f"transformers {transformers.__version__}, TensorFlow"}
    Path("expected.json").write_text(json.dumps(made, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
