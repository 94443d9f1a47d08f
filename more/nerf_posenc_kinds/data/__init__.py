"""What the further kinds open: files, read within limits, and data by formula."""
