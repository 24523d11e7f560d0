"""`BertConfig`: the sizes of a BERT, with the names that `bert_config.json` has for them."""

from __future__ import annotations

import json

from tfsmith.errors import UsageError
from tfsmith.records import record

__all__ = ["BertConfig"]


@record
class BertConfig:
    """The sizes of a BERT."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1

    def __post_init__(self) -> None:
        if self.hidden_size % self.num_attention_heads:
            what = f"a hidden size of {self.hidden_size} does not split into {self.num_attention_heads} heads"
            raise UsageError(what, remedy="choose a multiple")

    @staticmethod
    def tiny() -> BertConfig:
        """Two layers of 16: a few kilobytes, for unit tests."""
        return BertConfig(30, 16, 2, 2, 32, max_position_embeddings=20)

    @staticmethod
    def small() -> BertConfig:
        """Four layers of 128, with the vocabulary of the real ones: some 20 MB."""
        return BertConfig(30522, 128, 4, 2, 512)

    @staticmethod
    def base() -> BertConfig:
        """uncased_L-12_H-768_A-12: 438 MB."""
        return BertConfig(30522, 768, 12, 12, 3072)

    @staticmethod
    def large() -> BertConfig:
        """uncased_L-24_H-1024_A-16: 1.3 GB."""
        return BertConfig(30522, 1024, 24, 16, 4096)

    def to_json(self) -> str:
        """The text of its `bert_config.json`."""
        return json.dumps({name: getattr(self, name) for name in self.__match_args__}, indent=2, sort_keys=True) + "\n"
