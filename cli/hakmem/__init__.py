"""The hakmem memory allocator: its command line tool (`hakmem.main`), and the figures of a Python program that runs on
it. The functions raise NotActiveError where this process does not run on hakmem."""

from hakmem.own_figures import Events, Stats
from hakmem.own_process import NotActiveError, collect, events, is_active, stats

__version__ = "0.1.0"
__all__ = ["Events", "NotActiveError", "Stats", "__version__", "collect", "events", "is_active", "stats"]
