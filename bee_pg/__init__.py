"""bee on PostgreSQL 14 and newer. Needs `pip install bee-jobs[pg]`."""

from bee_pg.broker import PgBroker
from bee_pg.sending import sending

__all__ = ["PgBroker", "sending"]
