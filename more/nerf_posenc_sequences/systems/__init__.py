"""One module for each system: its model, its batches and its evaluation."""
