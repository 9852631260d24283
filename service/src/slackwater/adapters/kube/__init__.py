"""Adapter for Kubernetes' API server: turns lists and watches into events, and effects into API calls.

Other layers see only `ports.protocols` and the values of `model`; no JSON and no wire struct leaves this package.
"""
