"""Values that every other package of the program knows: measures, names, results and blocks."""
