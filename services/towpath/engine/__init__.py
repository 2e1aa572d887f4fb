"""The engine of a site: one warm Spark session that runs the site's jobs as streaming queries."""
