"""Drills: every step of every migration strategy, while a process dies, hangs, or is cut off.

Start reading at `matrix`, then `run` and `cell_run`.
"""
