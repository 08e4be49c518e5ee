"""A request in, results out: the plan of what is missing, its execution, and where the numbers come from."""
