"""The examples of docs/library.md, as one doctest. It is also a program that needs nothing of ours but the library, so that it
runs where only the wheels are: `python library_page.py docs/library.md`, in a folder with the files that the page names."""

import doctest
import re
import sys
from pathlib import Path


def examples(page: Path) -> str:
    """The blocks of a session, one after the other: later ones use names of earlier ones."""
    return "\n".join(re.findall(r"^```pycon\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


def played(page: Path) -> tuple[int, str]:
    """How many examples were run, and what those say that printed something else than the page."""
    test = doctest.DocTestParser().get_doctest(examples(page), {}, page.name, str(page), 0)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return len(test.examples), "".join(said)


if __name__ == "__main__":
    number, wrong = played(Path(sys.argv[1]))
    print(wrong or f"{number} examples")
    sys.exit(bool(wrong) or number == 0)
