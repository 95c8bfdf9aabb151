"""`python -m trimtab.agent`, the same as `trimtab-agent`."""

import sys

from .cli import main

sys.exit(main())
