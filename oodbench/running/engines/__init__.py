"""A plan in, its results out: where a plan runs."""
