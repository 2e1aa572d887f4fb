"""Deployment plans over many devices: read them, check them against a catalogue, and roll them out.

Start with `documents` (reading) and `check`; then `fleet` (the pure state machine) and `controller` (its
runner). `devices` is the interface to the devices. Messages and storage are elsewhere.
"""
