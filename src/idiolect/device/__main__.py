"""`python -m device FILE [KEY]`: check a bundle, and its signature if a public key is given; say what is in it."""

import sys
from pathlib import Path

from .bundle_text import describe
from .bundles import BundleError, read_bundle
from .signatures import SignatureError

if not 2 <= len(sys.argv) <= 3:
    sys.exit("usage: python -m device FILE [KEY]")
try:
    print(describe(read_bundle(sys.argv[1], Path(sys.argv[2]).read_bytes() if len(sys.argv) == 3 else None)))
except (BundleError, OSError) as reason:
    print(reason, file=sys.stderr)
    sys.exit(2)
except SignatureError as reason:
    print(f"key {sys.argv[2]} {reason}", file=sys.stderr)
    sys.exit(2)
