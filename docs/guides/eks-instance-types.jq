# The file of instance types of the provider karpenter, for EKS, from what EC2 says of its types and where they are offered.
# Linux, with the labels that NodePools of EKS name, and less what Karpenter (its vmMemoryOverheadPercent of 7.5), kubelet
# and eviction keep on AL2023 without prefix delegation. Prices are not in EC2's answer: see autoscaler.prices.table.
def reserved($cpus):  # milliCPU: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the rest
  60 + (if $cpus > 1 then 10 else 0 end) + (if $cpus > 3 then 10 elif $cpus > 2 then 5 else 0 end)
  + (if $cpus > 4 then 2.5 * ($cpus - 4) else 0 end);
($offerings[0].InstanceTypeOfferings | group_by(.InstanceType) | map({key: .[0].InstanceType, value: map(.Location)}) | from_entries)
  as $zones
| [ $types[0].InstanceTypes[]
    | select($zones[.InstanceType])
    | (.InstanceType | capture("^(?<category>[a-z]+)(?<generation>[0-9]+)?(?<more>[^.]*)[.](?<size>.+)$")) as $name
    | .VCpuInfo.DefaultVCpus as $cpus
    | .MemoryInfo.SizeInMiB as $mebibytes
    | (.NetworkInfo | .MaximumNetworkInterfaces * (.Ipv4AddressesPerInterface - 1) + 2) as $pods
    | (($mebibytes * 0.925 | floor) - 255 - 11 * $pods - 100) as $left
    | select($left > 0)
    | {
        name: .InstanceType,
        architecture: (if .ProcessorInfo.SupportedArchitectures | index("arm64") then "arm64" else "amd64" end),
        operatingSystems: ["linux"],
        resources: ({cpu: "\($cpus)", memory: "\($mebibytes)Mi", pods: "\($pods)"}
          + ([.GpuInfo.Gpus[]? | select(.Manufacturer == "NVIDIA") | .Count] | add | if . then {"nvidia.com/gpu": "\(.)"} else {} end)),
        allocatable: {cpu: "\($cpus * 1000 - reserved($cpus) | floor)m", memory: "\($left)Mi"},
        labels: {
          "karpenter.k8s.aws/instance-category": $name.category,
          "karpenter.k8s.aws/instance-family": "\($name.category)\($name.generation // "")\($name.more)",
          "karpenter.k8s.aws/instance-generation": ($name.generation // "0"),
          "karpenter.k8s.aws/instance-size": $name.size,
          "karpenter.k8s.aws/instance-cpu": "\($cpus)",
          "karpenter.k8s.aws/instance-memory": "\($mebibytes)",
          "karpenter.k8s.aws/instance-hypervisor": (.Hypervisor // "")
        },
        offerings: [
          $zones[.InstanceType][] as $zone | .SupportedUsageClasses[] | select(. == "on-demand" or . == "spot")
          | {Available: true, Requirements: [
              {key: "topology.kubernetes.io/zone", operator: "In", values: [$zone]},
              {key: "karpenter.sh/capacity-type", operator: "In", values: [.]}
            ]}
        ]
      }
    | select(.offerings | length > 0)
  ]
