"""Named points where an extension may look at passing data. Without an extension they do nothing.

`points` lists the points and shows their use; `extension` finds the one extension of a process. The rules
that act at the points are no part of the product: see `towpath.lab.faults`.
"""
