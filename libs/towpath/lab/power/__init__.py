"""Power cuts and full disks: a file system that forgets what was not synced, or has no room.

`disk` is its logic, `python -m towpath.lab.power` mounts it, and `mount` cuts the power of a mounted one.
The processes of a machine are killed by `towpath.lab.guard.machine`.
"""
