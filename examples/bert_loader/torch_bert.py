"""The same in PyTorch: transformers builds its `BertForSequenceClassification`, and loads the weights strictly.

Says so and ends well where PyTorch or transformers is not installed: they are large, and tfsmith needs neither.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from answers import WEIGHTS, load_config, load_features, report


def ask(features: dict[str, Any]) -> Any:
    """The probabilities for all pairs."""
    import torch  # type: ignore[import-not-found, unused-ignore]
    import transformers  # type: ignore[import-not-found, unused-ignore]
    from safetensors.torch import load_file

    # Google's gelu is computed by tanh; transformers calls that one gelu_new.
    config = transformers.BertConfig(**load_config() | {"hidden_act": "gelu_new"})
    network = transformers.BertForSequenceClassification(config).eval()
    network.load_state_dict(load_file(WEIGHTS), strict=True)  # every key is there, and none is left over
    inputs = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    with torch.no_grad():
        logits = network(**{key: torch.from_numpy(features[name]).long() for key, name in inputs.items()}).logits
    return torch.softmax(logits, -1).numpy()


def main() -> None:
    """Loads the weights and asks the network, if it can be built here."""
    missing = [name for name in ("torch", "transformers", "safetensors") if find_spec(name) is None]
    if missing:
        print(f"PyTorch: skipped, for {' and '.join(missing)} cannot be imported")
        return
    report("PyTorch", ask(load_features()))


if __name__ == "__main__":
    main()
