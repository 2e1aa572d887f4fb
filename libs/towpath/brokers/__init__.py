"""Brokers of a site, where devices publish and results appear, behind one small interface."""
