"""Runs clusters on one machine: an embedded cluster in one process, a real control plane (with its build recipe), the demo."""
