"""The PostgreSQL broker in trouble: real servers, real faults."""
