"""Loads fault rules into a running mesh and out of it again: one process, whose death ends them all."""
