"""The planning process: makes plans and answers people's questions on the one replica, outside the service's process.

In the service:

    process       starts the planning process when it is needed, and restarts it when it ends
    pipe          the service's end of the pipes: sends messages, and hands each answer to the caller that waits for it
    replica_feed  collects what changed since the last message

In the planning process:

    __main__      the entry point: pipes, signals, priority
    session       receives messages and makes plans
    children      forks a child for each question, which answers it

In both:

    messages      the types of the messages in both directions
    value_frames  encodes and decodes values in pieces of bounded size, and writes and reads these on a pipe
"""
