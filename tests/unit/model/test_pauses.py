"""What is paused, in one line."""

from slackwater.model.pauses import pause_text, pauses_of


def test_nothing_is_paused() -> None:
    assert pause_text(()) == ""


def test_activities_with_one_note_are_named_together_and_all_of_them_are_everything() -> None:
    found = pauses_of({"scale-up": "since noon", "scale-down": "since noon", "migration": ""})
    assert pause_text(found) == "Paused: scale-down, scale-up since noon; migration. `slackwater resume` ends it."
    assert len(pause_text(pauses_of({"all": "x" * 100_000}))) < 800
    assert pause_text(pauses_of({"all": "since noon"})) == "Paused: everything since noon. `slackwater resume` ends it."
