"""Emulated topologies: what a description of nodes and links makes of sites, containers and their limits."""
