"""Collect results and judge them by the truth: was anything lost, repeated, wrong, out of order or late?

Start with `judging`: it compares a `History` of received results with an `Expectation`, both in columns, and
counts the faults in a `Verdict`. `truth`, `ranges` and `clean_truth` compute the expected results of
operators, `rules` those of pipelines of any make. The jobs and sites of a mesh are unknown here.
"""
