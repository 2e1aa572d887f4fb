"""Reports for people: one HTML file each, with pictures, that needs nothing else."""
