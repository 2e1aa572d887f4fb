"""Pipeline descriptions: read them, check them, and plan the changes that a new version needs. No I/O."""
