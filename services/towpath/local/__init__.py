"""The local supervisor: it runs the shared servers, the services and one agent per site as processes."""
