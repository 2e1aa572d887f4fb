"""Containers that are not ours alone: pausing, limiting, disconnecting and following them."""
