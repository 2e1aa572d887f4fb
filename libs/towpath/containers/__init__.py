"""Containers of this machine's daemon, by name: nothing of a mesh is known here."""
