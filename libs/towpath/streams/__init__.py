"""Streams and what fills and reads them: the log, the Spark source and sink, replay of recorded data."""
