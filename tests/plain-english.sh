#!/bin/sh
# Fails if a comment or the guide uses a construction that must be read twice (CONTRIBUTING.md has examples).
# Generated code is left out, and so are headings and blocks of code in the guide.
set -eu
cd "$(dirname "$0")/.."
git ls-files --cached --others --exclude-standard -z '*.rs' 'docs/src/*.md' README.md ':!crates/tester/agent/src/proto.rs' | xargs -0 perl -Mutf8 -Mopen=:std,:utf8 -e '
    use strict;
    my @rules = (
        [qr/\bmade if (?:it is )?missing\b/, "created if it does not exist"],
        [qr/\b(?:is|are|was|were|been|be) told\b/, "name who gets what: the tester receives the reason"],
        [qr/\b(?:is|are) said\b/, "name who reports it: the message says"],
        [qr/\b(?:says|said|tells|told) of\b/, "reports, records, names; or `of` belongs to another noun"],
        [qr/\b(?:tell|tells|told) apart\b|\bcannot be told\b/, "distinguish"],
        [qr/\b[Ss]o (?:many|much)\b/, "name the quantity: at most `budget` descriptors"],
        [qr/\b[Tt]hat (?:many|much)\b/, "name the quantity"],
        [qr/\b(?:[Nn]obody|[Nn]o one) (?:knows|can tell)\b/, "it is unknown"],
        [qr/\b(?:do|does) not tell(?=[.,;:)]|$)/, "does not report it"],
        [qr/\b(?:can|could|cannot) (?:not )?be had\b|\bto be had\b/, "is available, can be opened"],
        [qr/\bany more\b(?! (?:than|of))/, "no longer"],
        [qr/\b(?:is|are) looked (?:at|for)\b/, "is read, polled, checked, searched"],
        [qr/\bwhat (?:it|they) (?:is|are) in\b/, "the encapsulation, the folder"],
        [qr/(?:\/\/[\/!]? |^|[.:;] )What (?!.*\?)/, "a noun: the counters, the fate, the cost of …"],
        [qr/(?:\/\/[\/!]? |^|[.:;] )Those (?:of|with|that|which|in|on|for)\b/, "repeat the noun"],
    );
    my $bad = 0;
    for my $file (@ARGV) {
        open my $in, "<", $file or die "$file: $!";
        my $fenced = 0;
        while (my $line = <$in>) {
            chomp $line;
            if ($file =~ /\.md$/) {
                $fenced = !$fenced if $line =~ /^\s*```/;
                next if $fenced || $line =~ /^#/;
            } else {
                next if $line !~ m{^\s*//};
            }
            for my $rule (@rules) {
                my ($wrong, $instead) = @$rule;
                next if $line !~ $wrong;
                print "$file:$.: \"$&\": write instead: $instead\n";
                $bad = 1;
            }
        }
    }
    exit $bad'
