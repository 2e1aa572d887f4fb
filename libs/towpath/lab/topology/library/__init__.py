"""Ready topologies: a file each."""
