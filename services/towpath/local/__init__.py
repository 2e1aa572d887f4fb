"""The local supervisor: runs the shared servers, the coordinator and one agent per site, as processes."""
