"""Programs that put load on a machine, each a process of its own that dies with the one that started it."""
