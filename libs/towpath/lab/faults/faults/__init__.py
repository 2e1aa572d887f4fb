"""The faults: one a file, each of which registers itself. `AUTHORING.md` says how to write another."""
