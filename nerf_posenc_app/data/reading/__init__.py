"""Reading of files: one worker process that decodes them within limits, and the formats."""
