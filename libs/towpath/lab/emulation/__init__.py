"""A topology at work: nodes as containers of this machine, with the limits and links that it gives them."""
