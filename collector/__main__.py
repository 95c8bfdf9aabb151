"""`python -m trimtab.collector`, the same as `trimtab-collector`."""

import sys

from .cli import main

sys.exit(main())
