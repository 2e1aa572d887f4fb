"""The command line: what people do with a mesh from a terminal."""
