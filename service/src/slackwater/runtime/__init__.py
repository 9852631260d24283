"""The state machine, which alone changes the cluster state, and what connects it with the outside: intake, dispatcher, planner
process, record and replay."""
