"""What a shadow keeps on the file system of its Pod, since it writes nothing into the cluster."""
