"""Policies that choose a site for each job: a file for each. `registry.py` names them."""
