"""Slackwater: one state of the cluster, one definition of "fits".

As a library it answers what-if questions about a cluster; docs/library.md has examples, and says what stays as it is. A name is
imported when it is first used, so that `import slackwater` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

# Both distributions have one version, and the service needs the protocol of its own. Modules below `app` import it from there:
# this one imports the library, for type checkers.
from slackwater_protocol import __version__

if TYPE_CHECKING:
    from slackwater.app.simulation import (
        BadInput,
        ClusterUnreachable,
        NoSuchObject,
        Simulation,
        SimulationError,
        from_file,
        from_kubeconfig,
        from_objects,
    )
    from slackwater.app.worth.answer import WorthAnswer
    from slackwater.explain.findings import Explanation
    from slackwater.ports.whatif_answers import ConsolidationAnswer, PlacementLine, ScaleDownAnswer, ScaleUpAnswer

__all__ = [
    "BadInput",
    "ClusterUnreachable",
    "ConsolidationAnswer",
    "Explanation",
    "NoSuchObject",
    "PlacementLine",
    "ScaleDownAnswer",
    "ScaleUpAnswer",
    "Simulation",
    "SimulationError",
    "WorthAnswer",
    "__version__",
    "from_file",
    "from_kubeconfig",
    "from_objects",
]

#: Where the answers are; everything else is in `app/simulation.py`.
_ANSWERS: Final = {
    "ConsolidationAnswer": "ports.whatif_answers",
    "Explanation": "explain.findings",
    "PlacementLine": "ports.whatif_answers",
    "ScaleDownAnswer": "ports.whatif_answers",
    "ScaleUpAnswer": "ports.whatif_answers",
    "WorthAnswer": "app.worth.answer",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ANSWERS.get(name, 'app.simulation')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
