"""The history checker: on histories made by hand, and on those of real processes."""
