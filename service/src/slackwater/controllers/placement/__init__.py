"""Placement: binds, from the held room to the reservation that the watch confirms. Filter is in `runtime.flows.filter`."""
