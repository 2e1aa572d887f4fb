"""Pipelines: their commands, the decisions of an apply, and applies under way.

Start reading at `commands.py`. `contracts/PIPELINES.md` has the promises of an apply.
"""
