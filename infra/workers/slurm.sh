#!/usr/bin/env bash
# The workers of a run as tasks of one job. The folder of tokens must be on a file system that all nodes
# share. Set HOST and the folder. Then run `sbatch slurm.sh`. The run itself is started elsewhere, or by a
# job with `eciton train`, before or after this one.
#SBATCH --job-name=eciton-workers
#SBATCH --ntasks=4
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=04:00:00
#SBATCH --requeue
# 90 seconds before the end of the time, and before a preemption, each worker ends its task and leaves.
#SBATCH --signal=TERM@90
#SBATCH --open-mode=append
set -euo pipefail
# A worker that fails does not end the others (--kill-on-bad-exit=0). The run gives its layers to them.
srun --kill-on-bad-exit=0 bash -c '
  exec eciton worker --connect HOST:7070 --token-file "tokens/worker-$SLURM_PROCID.token" --wait 600
'
