"""The recipe of the container image: Debian's packages and our wheels, as an OCI layout. docs/install.md says how to use it."""
