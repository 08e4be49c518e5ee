"""Text in, checked values out: suites, recipes, searches, and the cards of methods, networks and data sets."""
