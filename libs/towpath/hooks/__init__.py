"""Named points where an extension may look at what passes. Without one they do nothing.

`points` lists the points and says how code passes them; `extension` finds the one extension of a process.
What rules do at the points is no part of the product: see `towpath.lab.faults`.
"""
