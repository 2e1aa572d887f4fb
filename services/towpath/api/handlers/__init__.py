"""Handlers turn requests into commands. One serves most routes of the table, and others need their own."""
