"""Jobs: their commands, what a deploy, an update or a remove decides, and operations under way.

Start reading at `commands.py`. Moves are in `towpath.coordinator.migrations`.
"""
