"""Chaos Toolkit: scenarios become experiments and back, and experiments can call Towpath."""
