"""Plans are made in a process of its own, which follows the cluster by what it is told.

process   the service's side: starts the process, event sources it, asks it, and starts it again when it ends
told      what the process has been told: enough to tell another one, and to know pods by their uids
frames   values as bytes, a bounded piece at a time, both ways
session   the process' side of the conversation
__main__  the process: pipes, signals, priority
"""
