"""Decide by forecasts which jobs should move, and when: pure functions, start reading at `deciding.py`.

Measuring, asking people, and moving the jobs is done by the service of the same name.
"""
