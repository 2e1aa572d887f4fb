"""Power cuts: a file system that forgets what was not synced.

`disk` is the file system's logic, and `python -m towpath.lab.power` mounts it.
"""
