"""Short integrations of positions of attention."""
