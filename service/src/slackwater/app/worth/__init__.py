"""What Slackwater is worth to a cluster: the report on the rounds that it would play (`app.rounds`), in nodes and in money.

answer = worth_answer(cluster, settings, horizon_seconds=30 * 86_400, by_label="team", start=UnixTime(...))    # `report`
page_of(view_of(answer))                             # `view`, `app.html_page`: one file of HTML
"""
