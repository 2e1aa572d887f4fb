"""One harness for every trial: a stage (a mesh for a run), a workload, an observer, a judge, a report.

Scenarios, drills and demonstrations say what happens on the stage; none of them has parts of its own for
these five. Start reading at `stage`, then `observer`.
"""
