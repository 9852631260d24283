"""Node groups of Cluster API: MachineDeployments, MachineSets and MachinePools with Cluster Autoscaler's annotations."""
