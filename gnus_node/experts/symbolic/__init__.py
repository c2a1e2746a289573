"""The symbolic expert: exact arithmetic in digits and words, units and dates. Not one character of it is guessed or evaluated as code."""
