#!/usr/bin/env bash
# Installs a built kpps below a root folder: the command, its manual pages and completions, the guide and what
# else is to be read.
# usage: packaging/install.sh KPPS ROOT PREFIX, as packaging/install.sh target/release/kpps / /usr/local
set -euo pipefail
kpps=$(realpath "$1")
to=$2/$3
cd "$(dirname "$0")/.."
install -D --mode 755 "$kpps" "$to/bin/kpps"
"$kpps" man "$to/share/man/man1"
gzip --best --no-name --force "$to"/share/man/man1/kpps*.1
chmod 644 "$to"/share/man/man1/kpps*.1.gz
completions() { # shell, file
    mkdir -p "$(dirname "$to/share/$2")"
    "$kpps" completions "$1" > "$to/share/$2"
}
completions bash bash-completion/completions/kpps
completions zsh zsh/vendor-completions/_kpps
completions fish fish/vendor_completions.d/kpps.fish
install -D --mode 644 --target-directory "$to/share/doc/kpps" README.md CHANGELOG.md
install -D --mode 644 LICENSE "$to/share/doc/kpps/copyright"
for page in $(cd docs/src && find . -type f); do
    install -D --mode 644 "docs/src/$page" "$to/share/doc/kpps/guide/$page"
done
