"""Collects results and judges them by the truth: was anything lost, repeated, wrong, out of order or late?

Start with `judging`: a `History` of what came is held against an `Expectation`, both columns, and a `Verdict`
counts the faults. `truth`, `ranges` and `clean_truth` compute what operators should bring, `rules` what
pipelines of any make should. Whose results these are, and how they are collected from a site, is not here.
"""
