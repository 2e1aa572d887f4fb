"""Scenarios and campaigns: load, faults and commands in time, judged against steady state and the truth."""
