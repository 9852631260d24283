"""What sections of the configuration file are made of: base class, types of values, reading, and problems with their place."""
