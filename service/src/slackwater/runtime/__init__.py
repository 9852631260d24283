"""The state machine, the one writer; and what connects it with the outside: intake, dispatcher, flows, planner, records."""
