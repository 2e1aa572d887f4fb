"""Brokers of a site: where devices publish and where results appear, behind one small interface."""
