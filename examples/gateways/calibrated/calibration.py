"""Own code in a gateway's package: no part of Towpath is needed."""


def calibrated(event, parameters):
    """Return the event with its temperature corrected."""
    return {**event, "celsius": event["celsius"] + parameters["offset"]}
