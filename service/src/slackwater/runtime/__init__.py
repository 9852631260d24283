"""The state machine, which alone changes the cluster state, and the code that connects it with the outside: intake, dispatcher,
planning process, record and replay."""
