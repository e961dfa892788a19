"""Speed and memory, measured side by side in one run.  Stage: a user of the package, outside the wheel.

    python -m benchmarks run forward --n 128 512 --json new.json
    python -m benchmarks compare old.json new.json

Speed is reported, correctness is gated: a case that disagrees with its baseline is not timed.
"""
