"""Containers, also foreign ones: pause, limit and disconnect them, and follow those of a compose project."""
