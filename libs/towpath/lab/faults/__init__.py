"""Fault rules in a process: their conditions, where rules look, and the faults themselves."""
