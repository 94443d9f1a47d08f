"""How close a reconstruction is to its original."""
