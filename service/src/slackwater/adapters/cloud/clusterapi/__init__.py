"""Node groups of Cluster API: MachineDeployments, MachineSets and MachinePools that carry Cluster Autoscaler's annotations."""
