"""Private training of one party by a file. The library is `tacit.training`."""
