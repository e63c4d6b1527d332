#!/usr/bin/env bash
# npm 10.9.4 and 11.6.2, and pnpm 10.24.0: one Ctrl-C reaches the program of `npm run` twice, as the terminal sends it to the
# whole group and the runner sends it on. A program that takes a second Ctrl-C for impatience never ends in order there.
# Guess: once, as without a runner and with yarn 1.22.22: the program stands in the terminal's group itself.
# Seen on 2026-11-30: two SIGINTs under npm and pnpm (one in a few runs, when both arrive before either is handled).
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix runners --silent --no-audit --no-fund --ignore-scripts \
  npm10@npm:npm@10.9.4 npm11@npm:npm@11.6.2 yarn@1.22.22 pnpm@10.24.0 >/dev/null

cat >expected <<'EXPECTED'
npm 10: 2
npm 11: 2
pnpm: 2
yarn: 1
none: 1
EXPECTED
mkdir project
cat >project/package.json <<'JSON'
{ "name": "signals", "version": "1.0.0", "private": true, "scripts": { "wait": "exec node wait.js" } }
JSON
cat >project/wait.js <<'PROGRAM'
const { appendFileSync } = require('node:fs')
process.on('SIGINT', () => appendFileSync('seen', 'x'))
process.on('SIGHUP', () => process.exit())
setTimeout(() => process.exit(), 7_000)
PROGRAM
# Presses Ctrl-C once on a terminal of its own; prints how often the program saw it, at most in three attempts.
count() {
  local most=0
  for _ in 1 2 3; do
    : >project/seen
    (sleep 4 && printf '\003' && sleep 4) | (cd project && script -qec "$1" /dev/null) >/dev/null 2>&1 || true
    [ "$(wc -c <project/seen)" -le "$most" ] || most=$(wc -c <project/seen)
    [ "$most" -lt 2 ] || break
  done
  echo "$most"
}
bin="$folder/runners/node_modules"
{
  echo "npm 10: $(count "node $bin/npm10/bin/npm-cli.js run wait")"
  echo "npm 11: $(count "node $bin/npm11/bin/npm-cli.js run wait")"
  echo "pnpm: $(count "node $bin/pnpm/bin/pnpm.cjs run wait")"
  echo "yarn: $(count "node $bin/yarn/bin/yarn.js run wait")"
  echo "none: $(count 'exec node wait.js')"
} >seen

diff --label expected --label seen -u expected seen
cat seen
