"""A node provider for Cluster API: MachineDeployments, MachineSets and MachinePools with Cluster Autoscaler's annotations."""
