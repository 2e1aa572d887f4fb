"""The agent of a site: runs its broker and engine, its jobs, and its part in migrations."""
