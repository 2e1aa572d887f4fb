"""Deploy, update, remove and migrate as tables of steps, and the one runner that executes them."""
