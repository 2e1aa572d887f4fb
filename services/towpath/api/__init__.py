"""The REST interface: requests become the coordinator's commands, and its answers become responses."""
