"""Speed and memory of the package, compared with baselines in one run.

Room: benchmarks (not part of the wheel).

    python -m benchmarks run forward --n 128 512 --json new.json
    python -m benchmarks compare old.json new.json

A case whose result differs from its baseline's is an error and is not timed. A slow case is no error.
"""
