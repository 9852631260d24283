"""What happened to pods and nodes, persisted within bounds: the capability `history`."""
