"""Differential privacy: exact noise, mechanisms that return what they cost, calibration and accounting.

A release is a value plus an event (`mechanisms`); a `Ledger` adds up events and says what they cost (`accounting`);
`calibration` goes the other way, from a wanted (epsilon, delta) to a noise level.
"""
