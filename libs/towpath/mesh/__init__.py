"""What a mesh is on one machine: names, places on disk, credentials, server configurations."""
