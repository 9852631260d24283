"""The planning process: plans are made, and people's questions answered, outside the service's process, on the one replica.

process   the service's side: starts the process when it is needed, and restarts it when it ends
link      the service's end of the pipes: sends messages, hands answers to those who wait
feed      the service's side: collects what changed since the last message
messages  what is said in both directions
session   the planning process' side: receives messages, makes plans
children  the planning process' side: a child answers each question
frames    encodes and decodes values in pieces of bounded size, in both directions
pipes     writes and reads frames on a pipe
__main__  the entry point of the planning process: pipes, signals, priority
"""
