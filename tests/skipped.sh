#!/usr/bin/env bash
# Says which tests were skipped, and what for: how many for each reason, from the file that they wrote
# (KPPS_SKIPPED).
set -euo pipefail
touch "$KPPS_SKIPPED"
count=$(wc -l < "$KPPS_SKIPPED")
echo "$count tests skipped"
sed -E 's/^skipped: [^ ]+ //' "$KPPS_SKIPPED" | sort | uniq -c | sort -rn
