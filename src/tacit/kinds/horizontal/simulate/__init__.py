"""Every client of a federation on one machine or one cluster: `memory` in this process, `ray_engine` on Ray."""
