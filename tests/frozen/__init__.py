"""What users see, frozen: a change of the tree must not change it.

    models      of every example, made small, and their events and ledgers          values/runs.*
                of the examples as they stand (slow)                                values/whole.*
    frames      of one round under each protection, in semi-honest mode             values/frames.json
    agreements  config.yaml, fingerprint and the bytes that parties compare         values/agreements.json
    plans       `tacit plan --json` of every example and starter                    values/plans.json
    pages       the reports of the runs in stopped/                                 values/pages.json
    resumed     the runs in stopped/, killed in the middle, taken to their end      values/resumed.*

`observed` computes them and says what makes them repeat; `inner` is the only file here that knows the inner tree.
Bytes are compared as digests. Floats of trained models depend on the processor in their last bits: they are compared
with a tolerance, and their digests only by the command.

    python -m tests.frozen              what differs on this machine, to the last bit
    python -m tests.frozen --rewrite    freeze what is now; --rewrite plans only those
    python -m tests.frozen --store      make the runs in stopped/ again, which changes pages and resumed too
"""
