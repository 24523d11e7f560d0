"""What several stories take."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest
from examples.bert_loader.story import train_if_needed


@pytest.fixture(scope="session")
def stories_with_bert(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder for stories, with the trained BERT of bert_classifier; one for all processes of a test run."""
    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent
    folder = shared / "stories"
    with (shared / "stories.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        train_if_needed(folder / "bert_classifier")
    return folder
