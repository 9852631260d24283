"""Binds pods: from the hold on a node to the reservation that the watch confirms. Filter is in `runtime.flows.filter`."""
