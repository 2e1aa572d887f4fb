"""The autopilot: looks at the mesh, decides which jobs should move, moves them, and looks back.

The rules of decision are in `towpath.placement.autopilot`. Start reading at `pilot.py`.
"""
