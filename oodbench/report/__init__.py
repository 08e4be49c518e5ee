"""Results in, something to look at out: tables, comparisons, figures."""
