#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The corpus is what today's encoders make: seeds.py FUZZ_SEEDS CORPUS

What is compressed is not compared: its bytes are the compressor's, the day in it is compared plain.
"""
import pathlib
import subprocess
import sys
import tempfile

COMPRESSED = (".gz", ".zst")


def made(folder):
    """Bytes by name of all that is said to be made."""
    return {str(path.relative_to(folder)): b"" if path.suffix in COMPRESSED else path.read_bytes()
            for path in pathlib.Path(folder).glob("*/made-*")}


with tempfile.TemporaryDirectory(prefix="tickbus-seeds-") as fresh:
    subprocess.run([sys.argv[1], fresh], check=True)
    now, kept = made(fresh), made(sys.argv[2])
differ = [name for name in sorted(now.keys() | kept.keys()) if now.get(name) != kept.get(name)]
for name in differ:
    print(f"{name}: not what fuzz-seeds makes")
print(f"{len(now)} files made, {len(differ)} differ")
sys.exit(bool(differ) or not now)
