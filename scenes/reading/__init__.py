"""What files hold: one worker process that decodes them within limits, and the formats."""
