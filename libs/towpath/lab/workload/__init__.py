"""Input for experiments: recorded departures, their replay at a rate, and a Spark cluster to run on."""
