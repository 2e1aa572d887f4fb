"""Pipelines as descriptions: reading them, checking them, and what a changed one asks for. Pure."""
