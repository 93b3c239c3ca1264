"""Attacks and auditors that fit any kind."""
