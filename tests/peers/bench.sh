#!/usr/bin/env bash
# Prints a table of Eciton beside the peers: GCN 16 on Planetoid's sets, 200 epochs, from outside the processes. See bench.py.
#
#   cargo build --release && tests/peers/bench.sh [cora citeseer pubmed]
#
#   ECITON      the binary                                            target/release/eciton
#   PEERS       folder of the peers' scripts (pyg_bench.py, ...)      ../shared/peers
#   PEERS_VENV  Python environment with dgl 2.1.0, torch 2.2.1, torch_geometric 2.5.3 (set-up: README.md in PEERS)
#   PLANETOID   folder with ind.cora.* and so on                      ../shared/data/planetoid
#   PEERS_DATA  what prepare.py in PEERS made                         ${TMPDIR:-/tmp}/peers/data
#   ROUNDS      how often each is run, taking turns (A B C A B C)     2
#   THREADS     2; SEED 0; LONG 1200 (epoch time is (T(LONG) - T(200)) / (LONG - 200), wall clock)
#   OUT         where each run's figures go, one JSON object a line   target/peers.jsonl
#
# A peer that is absent is named in a note, not left out in silence. Run it on a quiet machine: the column "others" is how many
# cores other processes kept busy meanwhile; distrust a row with more than 0.3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# What the peers' baselines were measured with: glibc keeps freed memory, on huge pages, worth up to 2x to torch.
export PEERS_TUNABLES=${PEERS_TUNABLES-glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=68719476736:glibc.malloc.trim_threshold=68719476736}
exec python3 tests/peers/bench.py "$@"
