"""bee without await: `bee_core.sync`, in scripts, threads, forked processes and web frameworks."""
