"""Faults against migrations: every step of every strategy, while a process dies, hangs, or is cut off."""
