#!/usr/bin/env bash
# The jobs of a sweep as an array: `eciton sweep FILE --executor jobs` prints the list and its size.
# Set the array, the store and the list. Then run `sbatch slurm.sh`. Credentials are those of ~/.aws, or
# of the environment.
#SBATCH --job-name=eciton-sweep
#SBATCH --array=0-11
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=01:00:00
#SBATCH --requeue
set -euo pipefail
export AWS_REGION=${AWS_REGION:-us-east-1}
status=0
eciton job --store s3://BUCKET/PREFIX jobs/SWEEPID.list || status=$?
# With code 75 the store or the network failed, and another attempt may succeed (docs/how-to/sweep-settings.md).
if [ "$status" -eq 75 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
  scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit "$status"
