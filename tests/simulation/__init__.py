"""Checkpoints in a simulated world: one thread, one seed, no real time; the invariants are checked after every step.

A `World` (world.py) owns the clock, the ids, the storage (store.py), one to three driver processes of one job (drivers.py) and
their slots with state (tasks.py). The coordinator, the Delta storage, the uploads and, in a part of the worlds, state backends
are those of flinkish; what is replaced is below them (delta-rs, files, threads, time) and above them (the JobMaster). What must
always hold is in invariants.py; test_planted_bugs.py proves that it is noticed when it does not.

A failure names its seed and prints the trace. To replay it, and to run many seeds:

    .venv/bin/python -m tests.simulation --seed 4711
    make proof ARGS='--seeds 100000'
"""
