"""`python -m trimtab.collector`, the same as `trimtab-collector`."""

import sys

from .entry import main

sys.exit(main())
