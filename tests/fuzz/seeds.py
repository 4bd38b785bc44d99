#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the corpus is what the present encoders write: seeds.py FUZZ_SEEDS CORPUS

Compressed files are not compared, as their bytes depend on the compressor. Their content is compared uncompressed.
"""
import pathlib
import subprocess
import sys
import tempfile

COMPRESSED = (".gz", ".zst")


def made(folder):
    """The bytes of all "made-" files, by name."""
    return {str(path.relative_to(folder)): b"" if path.suffix in COMPRESSED else path.read_bytes()
            for path in pathlib.Path(folder).glob("*/made-*")}


with tempfile.TemporaryDirectory(prefix="tickbus-seeds-") as fresh:
    subprocess.run([sys.argv[1], fresh], check=True)
    now, kept = made(fresh), made(sys.argv[2])
differ = [name for name in sorted(now.keys() | kept.keys()) if now.get(name) != kept.get(name)]
for name in differ:
    print(f"{name}: differs from the file that fuzz-seeds writes")
print(f"{len(now)} files written, {len(differ)} differ")
sys.exit(bool(differ) or not now)
