"""Which rows parties have in common, and one order for them. Pure: channels and randomness are arguments."""
