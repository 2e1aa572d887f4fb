"""Store and forward between two sites: what is sent when, in which lane, and the proof that it is all there.

`forwarder.py` does it, the rest decides: begin with `position.py`. Where uplinks are declared is not here.
"""
