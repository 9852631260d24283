"""Live migration: decides which virtual machine leaves a node above its watermark, when, and to which node."""
