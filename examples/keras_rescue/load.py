"""Loads the rescued weights with transformers and PyTorch, and compares the answers with those of TensorFlow."""

import json
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Prints how far the answers are from TensorFlow's, or why they were not asked for."""
    if find_spec("transformers") is None or find_spec("torch") is None:
        print("skipped: transformers with PyTorch is not installed")
        return
    import torch
    import transformers

    expected = json.loads(Path("expected.json").read_text("utf-8"))
    model = transformers.AutoModelForSequenceClassification.from_pretrained(".", use_safetensors=True).eval()
    with torch.no_grad():
        logits = model(torch.tensor(expected["words"])).logits
    away = float((logits - torch.tensor(expected["logits"])).abs().max())
    print(f"transformers: at most {away:.0e} away from what TensorFlow answered")
    if away > 1e-4:
        raise SystemExit("the answers differ")


if __name__ == "__main__":
    main()
