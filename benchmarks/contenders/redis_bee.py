# /// script
# dependencies = ["bee-jobs[redis,uvloop]"]
# ///
"""bee on Redis, from this working tree: see `with_bee.py` for its settings.

A job is acknowledged after its handler has ended, with the token of its lease; the lease of a
process that was killed ends after 30 seconds, and the job runs again.
"""

import with_bee

if __name__ == "__main__":
    with_bee.main()
