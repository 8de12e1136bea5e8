"""What each store has to show beyond the contract."""
