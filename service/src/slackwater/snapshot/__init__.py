"""The cluster snapshot: the copy of the cluster on which plans are made, with its columns, trials and undo."""
