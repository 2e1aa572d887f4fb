"""The emulated links between sites and hub: one process that can delay, throttle and cut them."""
