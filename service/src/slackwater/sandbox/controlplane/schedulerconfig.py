"""Makes somebody's KubeSchedulerConfiguration fit to run here: it cannot know where our API server is."""

from pathlib import Path

import yaml


def with_kubeconfig(config: str | Path, kubeconfig: Path) -> str:
    """`config` (text, or a file) with `clientConnection.kubeconfig` set if it is not; all else as it was.

    kube-scheduler ignores --kubeconfig once it is given --config. ValueError if it is no KubeSchedulerConfiguration.
    """
    text = config.read_text() if isinstance(config, Path) else config
    document = yaml.safe_load(text)
    kind = document.get("kind") if isinstance(document, dict) else type(document).__name__
    if kind != "KubeSchedulerConfiguration":
        raise ValueError(f"scheduler configuration: got kind {kind!r}, want KubeSchedulerConfiguration")
    connection = document.get("clientConnection") or {}
    document["clientConnection"] = {"kubeconfig": str(kubeconfig), **connection}
    return yaml.safe_dump(document, sort_keys=False)
