"""Fault rules in a process: the language of conditions, where rules look, and the faults themselves."""
