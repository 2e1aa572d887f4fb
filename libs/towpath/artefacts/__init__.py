"""User code on its way to the engines: packed, named by content, stored at the hub, tried before it runs."""
