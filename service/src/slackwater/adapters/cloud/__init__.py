"""Node groups of the outside world behind `ports.protocols.NodeProvider`: one package for each provider."""
