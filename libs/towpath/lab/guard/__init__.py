"""Fault rules of one scope on its machine: written down, carried out on what is outside code, reported."""
