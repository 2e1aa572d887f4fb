"""The process of an application that is a Spark cluster: starts master, workers and the job, and feeds it.

`app.py` is the wiring. `commands.py` says which processes there must be, and `processes.py` keeps them
running. `job_feed.py` hands events to the job and takes its results. Nothing here loads Spark.
"""
