"""The coordinator: takes commands, keeps the registry, runs the protocols."""
