"""The dashboard on the ops listener: a static page without a build step, and a stream of the data that it draws.

pages.py    the files of `static/`, with headers that forbid the page to load anything from other hosts
frames.py   the data: a frame with everything, then frames with changes
series.py   figures over time, and the story of one object
why.py      an explanation as a page, for a browser that opens `/explain/...`
stream.py   their transport: server-sent events to a bounded number of listeners for a bounded time
"""

from slackwater.adapters.http.dashboard.pages import add_pages
from slackwater.adapters.http.dashboard.series import add_series
from slackwater.adapters.http.dashboard.stream import Listeners, add_stream
from slackwater.adapters.http.dashboard.update_frames import Frames

__all__ = ["Frames", "Listeners", "add_pages", "add_series", "add_stream"]
