"""Node groups of the outside world behind `run.ports.NodeProvider`: one package for each provider."""
