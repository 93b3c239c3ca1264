"""Benchmarks of Tacit against its peers. Run one with `python -m bench NAME`; see `bench.measure` to write one."""
