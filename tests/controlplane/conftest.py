"""Makes the plugin's hook and fixtures those of this folder."""

from tests.controlplane.plugin import anyio_backend, binaries, control_plane, pytest_collection_finish

__all__ = ["anyio_backend", "binaries", "control_plane", "pytest_collection_finish"]
