"""User code on its way to the engines: packed, named by its content, kept at the hub, tried before it runs."""
