"""`python -m slackwater`: the same as the command `slackwater`."""

import sys

from slackwater.cli.main import main

sys.exit(main())
