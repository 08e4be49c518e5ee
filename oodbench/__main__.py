"""python -m oodbench"""

import sys

from oodbench.cli import main

sys.exit(main())
