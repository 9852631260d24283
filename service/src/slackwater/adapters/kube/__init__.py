"""Kubernetes' API server: lists and watches become events, effects become API calls.

The rest of the house sees only `ports.protocols` and the values of `model`; no JSON and no wire struct leaves this package.
"""
