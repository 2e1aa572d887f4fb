"""The collector: what was measured anywhere in the mesh can be asked for here."""
