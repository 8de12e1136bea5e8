"""What commands have in common: which store, which jobs, in which words."""
