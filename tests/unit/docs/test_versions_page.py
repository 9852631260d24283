"""docs/versions.md lists every rule that differs between versions, as the code has it."""

from pathlib import Path

from slackwater.model.kubernetes_rules import GATES, NEWEST_MINOR, OLDEST_MINOR, SUPPORTED, GateRule, Rule, SinceRule

PAGE = (Path(__file__).parents[3] / "docs" / "versions.md").read_text()


def row(rule: Rule) -> str:
    """The rule's line of the table."""
    value: SinceRule | GateRule = rule.value
    if isinstance(value, SinceRule):
        return f"| {value.plugin} {value.effect} | 1.{value.minor} |"
    gate = GATES[value.gate]
    on = "off by default" if gate.on is None else f"on by default since 1.{gate.on}"
    if gate.compatible is not None:
        on += f" (on with `--min-compatibility-version` 1.{gate.compatible})"
    return f"| {value.plugin} {value.effect} | gate `{value.gate}`, {on} |"


def test_every_rule_has_its_line() -> None:
    assert [row(rule) for rule in Rule if row(rule) not in PAGE] == []
    assert PAGE.count("| gate `") == sum(isinstance(rule.value, GateRule) for rule in Rule)


def test_the_supported_versions_are_named() -> None:
    assert f"1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}" in PAGE
    assert [version for version in SUPPORTED if version not in PAGE] == []
