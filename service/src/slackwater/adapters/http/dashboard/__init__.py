"""The dashboard on the ops listener: a page without a build step, and a stream of what it draws.

pages.py    the files of `static/`, with headers that forbid the page to load anything from elsewhere
frames.py   what is sent: the whole view, then changes of it
stream.py   how it is sent: server-sent events, limited in number and time
"""

from slackwater.adapters.http.dashboard.frames import Frames
from slackwater.adapters.http.dashboard.pages import add_pages
from slackwater.adapters.http.dashboard.stream import Listeners, add_stream

__all__ = ["Frames", "Listeners", "add_pages", "add_stream"]
