"""The edge node: data models of reports become jobs. What jobs compute is in `towpath.operators`."""
