# /// script
# dependencies = ["bee-jobs[uvloop]"]
# ///
"""bee in memory, from this working tree: what the worker costs without any server.

Its worker sends itself `--jobs` jobs before it begins, since nobody else can. Nothing survives the
end of its process.
"""

import with_bee

if __name__ == "__main__":
    with_bee.main()
