"""Descriptions of the laboratory's services, as `towpath.mesh.service_table` reads them."""
