"""Gateways: small devices that run light operators, take commands over MQTT and feed a site's broker.

Start with `control.py` (the protocol) and `client.py` (for those who command gateways). The process of a
gateway is in `services/towpath/gateway`. Nothing here but `client.py` imports pydantic: memory is scarce.
"""
