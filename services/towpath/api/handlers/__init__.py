"""Requests become commands: one function for most routes of the table, and those that need more."""
