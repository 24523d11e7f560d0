"""Checkpoints of both versions, and the tables that they are made of."""
