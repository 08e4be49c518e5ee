"""Bytes in, arrays out, and from these the parts of a setting; numpy, no torch."""
