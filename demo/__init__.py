"""The same traffic fed to each of the six limits, and what each lets through."""
