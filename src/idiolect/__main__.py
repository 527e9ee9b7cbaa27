"""`python -m idiolect`."""

import sys

from idiolect.cli import main

sys.exit(main())
