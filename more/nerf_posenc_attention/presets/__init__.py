"""Rotary embeddings of models and libraries, by name: tables of plain rows."""
