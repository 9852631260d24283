"""The counts of `make size`: what is a line of code, and where a parameter is followed to."""

from textwrap import dedent

from tests.size.__main__ import code_lines
from tests.size.walks import Code, Walk

_FILES = {
    "service/src/a/entry.py": """
        from a.room import Room, Wish

        class Flow:
            def __init__(self, room: Room) -> None:
                self._room = room

            def begin(self, pod: Pod) -> int:
                wish = Wish(pod=pod, other=3)
                self._room.hold(pod)
                self._room.hold(pod)
                self._room.unrelated(wish.other, pod.uid)
                return self._last(wish.pod)

            def _last(self, pod: Pod) -> int:
                return len(pod)
    """,
    "service/src/a/room.py": """
        class Wish:
            pod: Pod
            other: int

        class Room:
            def hold(self, pod: Pod) -> None:
                note(pod.need)

            def unrelated(self, number: int, uid: str) -> None:
                note(number)

        def note(need: int) -> None: ...
    """,
}


def test_a_walk_goes_where_the_value_and_its_parts_go() -> None:
    walk = Walk(Code({path: dedent(text) for path, text in _FILES.items()}), ("Flow.begin",), "pod")
    want_names = ["a.entry.Flow.begin", "a.room.Room.hold", "a.room.note", "a.entry.Flow._last"]
    assert walk.names == want_names, "neither `other` of the wish nor the pod's uid is the pod"
    stays, files, returns, names = walk.counts()
    assert (stays, files, returns, names) == (5, 2, 3, 4)


def test_lines_of_code_have_a_token_of_their_own() -> None:
    text = '"""What\nit is."""\n\n# why\nnames = [\n    1,  # one\n]\n\n\ndef f():\n    """Says."""\n    return """a\n\nb"""\n'
    want = ["names = [", "1,", "]", "def f():", 'return """a', "", 'b"""']
    assert code_lines(text) == len(want)
