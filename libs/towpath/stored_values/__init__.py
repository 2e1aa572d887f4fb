"""Stored values of a site: read them out of events, keep them, choose and join them.

Nothing here talks to another process: `services/towpath/storage` feeds a store, and the collector asks those
of all sites. Start reading with `value_store`.
"""
