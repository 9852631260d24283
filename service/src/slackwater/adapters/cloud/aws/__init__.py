"""A node provider over EC2 Auto Scaling groups. Needs the extra `slackwater[aws]`.

client.py         one call to AWS: deadline, throttling, errors
groups.py         an Auto Scaling group as AWS describes it, and how groups are found
activities.py     why machines were not launched
machine_types.py  what machines of a type have, and which types a group launches
template.py       the template of new nodes and the group's options, from tags
own_changes.py    what this process has changed and AWS may not show yet
provider.py       the provider
interruptions.py  warnings that spot machines will stop, from a queue
"""
