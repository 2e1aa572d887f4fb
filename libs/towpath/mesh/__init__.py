"""A mesh on one machine: its services, places on disk, credentials, permissions, and server configurations.

Processes are started in `towpath.processes`, commands and events are in `towpath.bus`. Start reading at
`service_table` for the parts of a mesh, and at `state` for what it keeps.
"""
