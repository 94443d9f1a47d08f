"""Short integrations of the encoders, which run offline on a CPU."""
