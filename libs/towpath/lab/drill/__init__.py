"""Drills: every step of every operation on a job, while a process dies, hangs, or is cut off.

A cell of the matrix becomes a scenario, and the scenarios are played as a campaign. Start reading at
`matrix`, then `cell_scenario`.
"""
