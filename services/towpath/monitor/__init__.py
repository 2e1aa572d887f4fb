"""The synchronisation monitor: it compares two runs of a job and decides when one can replace the other."""
