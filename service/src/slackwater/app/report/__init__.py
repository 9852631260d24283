"""The report on what happened in a cluster, and what Slackwater would have done there: from the log of both sides
(`app.counterfactual.lines`) to figures, tables and a page.

with log_files("shadow.log") as log:                # `log_files`: the log's files, oldest first
    answer = report_answer(log, since_seconds=86_400)    # `report`
page_of(view_of(answer))                            # `view`, `app.html_page`: one file of HTML

- `window`: which time counts.
- `totals`: nodes, money, pending pods and evictions of each side.
- `partings`: the money of the nodes that exist on one side only, by the decision that made them differ.
- `view`, `plots`: the figures for people.
"""
