"""A gateway's process: commanded over MQTT, runs light operators, feeds a site's broker.

`app.py` is the wiring. `commands.py` carries requests out, `applications.py` runs packages, and
`site_session.py` is the connection to the site's broker. Start it with `python -m towpath.gateway`.
"""
