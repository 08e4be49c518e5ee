"""Covariate shift: one module per family, each a dictionary KINDS of name -> function(images, severity, rows)."""
