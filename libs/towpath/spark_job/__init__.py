"""The job of a Spark application on a device, as its script sees it: events in, results out.

A script uses `Job` of `job.py`. The process that starts the script is in `services/towpath/gateway/spark`.
"""
