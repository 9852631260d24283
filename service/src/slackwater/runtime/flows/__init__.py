"""Flows: questions and duties that concern several controllers. Each module calls the controllers in a fixed order."""
