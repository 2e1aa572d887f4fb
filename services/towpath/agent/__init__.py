"""The agent of a site: it runs the site's broker, engine and jobs, and its part in migrations."""
