"""docs/evacuation.md says of every rule and every unremovable reason what the code has."""

from pathlib import Path

from deploy.documents.pages import unremovable_reasons
from slackwater.fit.drainability import RULES
from slackwater.model.reasons import UnremovableReason

PAGE = Path("docs/evacuation.md").read_text()


def test_the_page_has_every_unremovable_reason() -> None:
    assert f"<!-- generated: unremovable reasons -->\n{unremovable_reasons()}<!-- end -->\n" in PAGE
    assert [line.split("`")[1] for line in unremovable_reasons().splitlines()[2:]] == list(UnremovableReason)


def test_the_page_has_the_rules_in_their_order() -> None:
    table = PAGE.partition("| rule |")[2].partition("\n\n")[0].splitlines()[2:]
    named = [line.split("|")[1].strip().lower().replace(" ", "_").replace("daemonset", "daemon_set") for line in table]
    assert named == [*(rule.__name__.removeprefix("judge_") for rule in RULES), "budget"]
