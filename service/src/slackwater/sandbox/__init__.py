"""What stands for a cluster on one machine: the embedded cluster, the recipe of a real control plane, and the demo."""
