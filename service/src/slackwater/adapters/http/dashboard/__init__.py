"""The dashboard on the ops listener: a static page without a build step, and a stream of the data that it draws.

routes.py         the files of `static/`, the stream of frames, figures over time, and what happened to one object
update_frames.py  the data that the page draws: first a frame with everything, then frames with changes
explain_page.py   an explanation as a page, for a browser that opens `/explain/...`
"""
