"""The Redis broker in trouble: real servers, real faults."""
