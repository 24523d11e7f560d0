"""A BERT made on the spot, and tests of a BERT's files that anybody can run on their own.

pytest --pyargs tfsmith.testing.bert --config-path C --chkpt-path P [--frozen-path F]
"""

from __future__ import annotations

from tfsmith.testing.bert.build import BertSetup, build_bert_classifier

__all__ = ["BertSetup", "build_bert_classifier"]
