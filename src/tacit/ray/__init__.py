"""Work on a Ray cluster (extra `ray`). Simulated clients on one: `tacit.kinds.horizontal.simulate`.

    cluster     starting or finding a cluster; tasks that unmask ranges of columns
    paillier    one party's Paillier batches as tasks

One trust domain only: the driver and all workers see everything, keys included, and Ray moves it by pickle. It is for
simulations, and for the coordinator's own arithmetic; parties that must not trust each other use `tacit join`.
"""
