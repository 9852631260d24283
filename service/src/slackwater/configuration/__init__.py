"""The parts of the configuration file's sections: base class, types of values, reading, and problems with their place."""
