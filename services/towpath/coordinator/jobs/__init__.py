"""Jobs: their commands, the decisions of deploy, update and remove, and operations under way.

Start reading at `commands.py`. Moves are in `towpath.coordinator.migrations`.
"""
