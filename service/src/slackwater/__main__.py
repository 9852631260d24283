"""`python -m slackwater`: the same as the command `slackwater`."""

import sys

from slackwater.app.cli import main

sys.exit(main())
