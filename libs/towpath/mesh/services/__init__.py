"""Descriptions of the services: each module has one service, and registers it.

Their code is in `services/towpath`; the laboratory's descriptions are in `towpath.lab.services`. Start
reading at `towpath.mesh.service_table`.
"""
