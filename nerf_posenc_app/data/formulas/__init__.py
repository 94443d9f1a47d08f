"""What the scenes that ship with the program are made of: solids, media, exact rendering."""
