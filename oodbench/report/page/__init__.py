"""Results in, a static page out: what tables, comparisons and checks say, to look at in a browser, offline."""
