"""Ready scenarios, one a file."""
