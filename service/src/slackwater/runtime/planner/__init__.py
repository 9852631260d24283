"""The planning process: plans are made outside the service's process, on a replica of the cluster that the service updates.

process   the service's side: starts the process, sends it changes and inquiries, and restarts it when it ends
session   the planning process' side: receives inquiries, returns plans
frames    encodes and decodes values in pieces of bounded size, in both directions
pipes     writes and reads frames on a pipe
__main__  the entry point of the planning process: pipes, signals, priority
"""
