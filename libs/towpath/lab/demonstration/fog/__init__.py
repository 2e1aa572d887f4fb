"""Fog against cloud: SpecK's road-traffic experiment in shape, and its changed pipeline, on departures."""
