"""Containers of this machine's daemon, by name. Nothing in here knows of a mesh."""
