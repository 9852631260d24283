"""deploy/chart, rendered by the real helm: as tests want it, and as the plain manifests of deploy/."""
