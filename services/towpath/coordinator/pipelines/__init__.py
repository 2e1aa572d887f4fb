"""Pipelines: their commands, what an apply decides, and applies under way.

Start reading at `commands.py`; `contracts/PIPELINES.md` says what an apply keeps.
"""
