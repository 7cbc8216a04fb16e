"""The foundations that every other room uses: values, errors, names, randomness, memory, compiling."""
