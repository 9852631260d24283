"""NeonVM as far as a scheduler sees it: resource types, a controller, machines with agents. In our own words, for tests."""
