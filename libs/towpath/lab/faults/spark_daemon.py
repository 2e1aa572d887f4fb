"""`python -m towpath.lab.faults.spark_daemon`: Spark's Python daemon, whose workers look at the rules.

A worker is a fork of the daemon and runs whatever Spark sends it: users' functions, without a word of
Towpath. So it is the fork that begins to look; see `towpath.lab.faults.board`. What carries rules out is
imported here, once for all workers: in a worker it would take as long as a rule may take to be felt.
"""

from __future__ import annotations

from towpath.lab.faults import board
from towpath.operators import python_daemon

if __name__ == "__main__":
    board.prepare()
    board.begin_in_forks()
    python_daemon.run()
