"""The dashboard on the ops listener: a static page without a build step, and a stream of the data that it draws.

pages.py          the files of `static/`, with headers that forbid the page to load anything from other hosts
update_frames.py  the data that the page draws: first a frame with everything, then frames with changes
stream.py         sends these frames as server-sent events, to a bounded number of listeners for a bounded time
series.py         figures over time, and what happened to one object
explain_page.py   an explanation as a page, for a browser that opens `/explain/...`
"""

from slackwater.adapters.http.dashboard.pages import add_pages
from slackwater.adapters.http.dashboard.series import Story, add_series
from slackwater.adapters.http.dashboard.stream import Listeners, add_stream
from slackwater.adapters.http.dashboard.update_frames import Frames

__all__ = ["Frames", "Listeners", "Story", "add_pages", "add_series", "add_stream"]
