"""The controllers: one folder for each capability, with its decisions, its state and its loop."""
