"""How large the code is, and how far a reader has to walk: `python -m tests.size` counts both, at any commit."""
