"""The lines that reproduce other libraries, and the numbers they are compared with."""
