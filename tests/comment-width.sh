#!/bin/sh
# Fails if a line that is only a comment has more than 110 columns. rustfmt keeps code within that, not
# comments. Generated code is left out.
set -eu
cd "$(dirname "$0")/.."
git ls-files --cached --others --exclude-standard -z '*.rs' '*.proto' '*.toml' '*.sh' Makefile ':!crates/tester/agent/src/proto.rs' | xargs -0 perl -Mopen=:std,:utf8 -ne '
    if (m{^\s*(//|# )} && length > 111) { print "$ARGV:$.: a comment of more than 110 columns: $_"; $wide = 1 }
    close ARGV if eof;
    END { exit $wide }'
