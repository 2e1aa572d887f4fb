"""Measurements and records of what happened: samples, spans and logs, kept where they arise."""
