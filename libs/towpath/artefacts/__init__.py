"""User code on its way to the engines: packed, named by content, kept at the hub, tried before it runs."""
