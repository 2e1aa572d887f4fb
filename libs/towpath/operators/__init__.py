"""What jobs compute: operators compiled to Spark plans. `compilation.compile_job` is the way in."""
