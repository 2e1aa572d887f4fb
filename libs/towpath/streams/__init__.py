"""The streams of sites, their owners, publishers and readers, and the Spark source and sink."""
