"""The application: the settings file, the wiring of the service, and what the user commands print."""
