"""Makes pairs of tiny Hugging Face models: `tf_model.h5` as TensorFlow wrote it, and what transformers makes of it.

Needs transformers below 5 with TensorFlow, tf_keras and PyTorch, in an environment of its own; tests need none of it:

    python -m tools.make_huggingface_pairs tests/data/huggingface

Each model has random weights. The TensorFlow class writes `NAME.h5`; the PyTorch class reads it (`from_tf=True`) and
writes `NAME.safetensors`. Both are packed by xz; PROVENANCE.md names the versions that were used.
"""

from __future__ import annotations

import lzma
import sys
import tempfile
from pathlib import Path
from typing import Any

_TEXT = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
         "max_position_embeddings": 10}  # fmt: skip
_BART = {"vocab_size": 20, "d_model": 8, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 2,
         "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 10,
         "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2,
         "forced_eos_token_id": 2}  # fmt: skip
_GPT2 = {
    "vocab_size": 20,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 10,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
_T5 = {
    "vocab_size": 20,
    "d_model": 8,
    "d_kv": 4,
    "d_ff": 12,
    "num_layers": 2,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
_T5_NEW = {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
_VIT = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12, "image_size": 8,
        "patch_size": 4, "num_channels": 3}  # fmt: skip
_WHISPER = {**_BART, "num_mel_bins": 5, "max_source_positions": 6, "max_target_positions": 10, "suppress_tokens": None,
            "begin_suppress_tokens": None}  # fmt: skip
_DISTIL = {"vocab_size": 20, "dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 12, "max_position_embeddings": 10}
_CLIP = {
    "text_config": {**_TEXT, "num_hidden_layers": 1, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1},
    "vision_config": {**_VIT, "num_hidden_layers": 2},
    "projection_dim": 6,
}
_CTRL = {"vocab_size": 20, "n_embd": 8, "dff": 12, "n_layer": 2, "n_head": 2, "n_positions": 10}
_DEBERTA = {**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 2}
_CONVBERT = {**_TEXT, "embedding_size": 8, "head_ratio": 2, "num_groups": 1, "conv_kernel_size": 3}
_FUNNEL = {"vocab_size": 20, "block_sizes": [1, 1], "num_decoder_layers": 1, "d_model": 8, "n_head": 2, "d_head": 4,
           "d_inner": 12}  # fmt: skip
_RESNET = {"embedding_size": 4, "hidden_sizes": [4, 8], "depths": [1, 1]}
_SWIN = {"image_size": 8, "patch_size": 2, "embed_dim": 4, "depths": [1, 1], "num_heads": [2, 2], "window_size": 2}
_WAV2VEC2 = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
             "intermediate_size": 12, "conv_dim": [8, 8], "conv_stride": [5, 2], "conv_kernel": [10, 3],
             "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
             "num_conv_pos_embedding_groups": 2}  # fmt: skip
_XLNET = {"vocab_size": 20, "d_model": 8, "n_layer": 2, "n_head": 2, "d_inner": 12}
PAIRS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("Bert", "BertForMaskedLM", _TEXT),
    "bert-base": ("Bert", "BertModel", _TEXT),
    "bert-pretraining": ("Bert", "BertForPreTraining", _TEXT),
    "bert-classifier": ("Bert", "BertForSequenceClassification", _TEXT),
    "roberta": ("Roberta", "RobertaForMaskedLM", _TEXT),
    "distilbert": ("DistilBert", "DistilBertForSequenceClassification", _DISTIL),
    "albert": ("Albert", "AlbertForMaskedLM", {**_TEXT, "embedding_size": 6}),
    "electra": ("Electra", "ElectraForPreTraining", {**_TEXT, "embedding_size": 6}),
    "gpt2": ("GPT2", "GPT2LMHeadModel", _GPT2),
    "gpt2-base": ("GPT2", "GPT2Model", _GPT2),
    "t5": ("T5", "T5ForConditionalGeneration", _T5),
    "t5-v1.1": ("T5", "T5ForConditionalGeneration", _T5_NEW),
    "bart": ("Bart", "BartForConditionalGeneration", _BART),
    "vit": ("ViT", "ViTForImageClassification", _VIT),
    "vit-base": ("ViT", "ViTModel", _VIT),
    "whisper": ("Whisper", "WhisperForConditionalGeneration", _WHISPER),
    "clip": ("CLIP", "CLIPModel", _CLIP),
    "convbert": ("ConvBert", "ConvBertForMaskedLM", _CONVBERT),
    "ctrl": ("CTRL", "CTRLLMHeadModel", _CTRL),
    "deberta": ("Deberta", "DebertaForMaskedLM", _DEBERTA),
    "funnel": ("Funnel", "FunnelForMaskedLM", _FUNNEL),
    "longformer": ("Longformer", "LongformerForMaskedLM", {**_TEXT, "attention_window": 4}),
    "mbart": ("MBart", "MBartForConditionalGeneration", _BART),
    "resnet": ("ResNet", "ResNetForImageClassification", _RESNET),
    "swin": ("Swin", "SwinForImageClassification", _SWIN),
    "wav2vec2": ("Wav2Vec2", "Wav2Vec2ForCTC", _WAV2VEC2),
    "xlnet": ("XLNet", "XLNetLMHeadModel", _XLNET),
}  # fmt: skip


def make_pair(name: str, folder: Path) -> None:
    """Writes the two files of a model and its config."""
    import numpy
    import transformers

    family, class_name, sizes = PAIRS[name]
    config = getattr(transformers, f"{family}Config")(**sizes)
    config.architectures = [class_name]
    model = getattr(transformers, f"TF{class_name}")(config)
    model(model.dummy_inputs)
    random = numpy.random.default_rng(7)
    for weight in model.weights:
        weight.assign(random.normal(size=weight.shape).astype("float32"))
    with tempfile.TemporaryDirectory() as place:
        model.save_pretrained(place, safe_serialization=False)
        other = getattr(transformers, class_name).from_pretrained(place, from_tf=True)
        other.save_pretrained(Path(place) / "torch", safe_serialization=True)
        (folder / f"{name}.h5.xz").write_bytes(_packed(Path(place) / "tf_model.h5"))
        (folder / f"{name}.safetensors.xz").write_bytes(_packed(Path(place) / "torch/model.safetensors"))
        (folder / f"{name}.json").write_bytes((Path(place) / "config.json").read_bytes())


def _packed(path: Path) -> bytes:
    return lzma.compress(path.read_bytes(), preset=9 | lzma.PRESET_EXTREME)


def main() -> None:
    import h5py
    import tensorflow
    import tf_keras
    import torch
    import transformers

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or PAIRS:
        make_pair(name, folder)
    versions = {one.__name__: one.__version__ for one in (transformers, tensorflow, tf_keras, torch, h5py)}
    lines = "\n".join(f"- {name} {version}" for name, version in versions.items())
    text = f"""# Where these files come from

`python -m tools.make_huggingface_pairs tests/data/huggingface` made them, with random weights, by

{lines}

`NAME.h5.xz` is the `tf_model.h5` that the TensorFlow class of transformers wrote. `NAME.safetensors.xz` is what the
PyTorch class wrote after it had read that file (`from_pretrained(..., from_tf=True)`, then `save_pretrained`).
`NAME.json` is the config.
"""
    (folder / "PROVENANCE.md").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
