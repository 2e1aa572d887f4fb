"""The main job, end to end: real departures through a pipeline over four sites, one job of it moving."""
