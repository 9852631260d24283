"""docs/evacuation.md says of every rule and every hindrance what the code has."""

from pathlib import Path

from slackwater.app.documents import hindrances
from slackwater.fit.drainability import RULES
from slackwater.model.unremovable_reasons import Hindrance

PAGE = Path("docs/evacuation.md").read_text()


def test_the_page_has_every_hindrance() -> None:
    assert f"<!-- generated: hindrances -->\n{hindrances()}<!-- end -->\n" in PAGE
    assert [line.split("`")[1] for line in hindrances().splitlines()[2:]] == list(Hindrance)


def test_the_page_has_the_rules_in_their_order() -> None:
    table = PAGE.partition("| rule |")[2].partition("\n\n")[0].splitlines()[2:]
    named = [line.split("|")[1].strip().lower().replace(" ", "_").replace("daemonset", "daemon_set") for line in table]
    assert named == [*(rule.__name__.removeprefix("judge_") for rule in RULES), "budget"]
