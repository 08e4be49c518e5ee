"""Raw scores in, results out: what was measured, as metrics, files, and the choice among checkpoints."""
