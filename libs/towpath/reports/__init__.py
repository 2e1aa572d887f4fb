"""Reports for people: one HTML file each, with pictures, without links to other files."""
