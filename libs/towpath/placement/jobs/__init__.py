"""Places for jobs: a picture of the mesh, policies that choose one site for each job, and the moves between.

Start at `view.py`, the picture. `evaluation.py` has all formulas; `policies/` has a file for each policy,
`policies/registry.py` names them; `moves.py` orders the moves from one placement to another.
"""
