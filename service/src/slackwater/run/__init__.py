"""What waits: intake (watch -> world), dispatcher (effects -> API calls), loops; and the ports that the edge implements."""
