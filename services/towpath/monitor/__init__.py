"""The synchronisation monitor: compares two runs of one job and says when one can follow the other."""
