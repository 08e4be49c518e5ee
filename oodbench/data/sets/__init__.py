"""One module per family of data sets and nothing else: `oodbench list datasets` reads this folder."""
