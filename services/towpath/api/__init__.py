"""The REST interface: it turns requests into the coordinator's commands, and answers into responses."""
