"""The cluster snapshot: what plans are made on, with its columns, trials and undo."""
