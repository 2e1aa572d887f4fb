"""Brokers of a site, where devices publish and results appear.

Each kind has a binder: `nats` is the site's own server, `mosquitto` runs beside it. The bridge from a broker
to the site's server is here, too. Start with `binder`, then `bridged`.
"""
