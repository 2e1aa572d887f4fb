"""The demonstration of failover: a site dies under load, its jobs go on at their standby, and it returns.

Start reading at `run.py`.
"""
