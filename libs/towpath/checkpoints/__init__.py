"""Checkpoints of a streaming query: what they say, what belongs to them, how they travel."""
