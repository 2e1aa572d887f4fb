"""The autopilot's demonstration: a day with an overload, a tunnel, an empty battery and a failing site.

Start reading at `day.py`.
"""
