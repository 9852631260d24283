"""A cluster on virtual time in which pods of one class come as a trace says, live a while and go: with the real loop, whole nodes
that take two minutes to start and ten to be found unneeded, and either a promise or room that is the same at all times.

A step is a loop's ten seconds. What comes within a minute is spread over its steps by the trace's own seed. A pod that finds room
has its node in the step in which it comes.
"""

from dataclasses import dataclass, replace

import numpy as np

from slackwater.decide.scaledown.policy import ScaleDownPolicy
from slackwater.decide.slack.rule import SlackPolicy, SlackRule
from slackwater.model.columns import Int64
from slackwater.model.effects import Effect
from slackwater.model.events import PodGone, Ticked
from slackwater.model.ids import NodeName, PodUid
from slackwater.model.objects import Node, Pod
from slackwater.model.promises import PodClass
from slackwater.model.resources import Amounts
from slackwater.run.loops.promising import Promising
from tests.support.builders import a_node, a_pod
from tests.support.cloud import Delays
from tests.support.shrinking import ShrinkScene
