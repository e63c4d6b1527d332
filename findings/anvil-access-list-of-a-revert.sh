#!/usr/bin/env bash
# @foundry-rs/anvil 1.7.1 (npm): eth_createAccessList of a call that reverts is a JSON-RPC error without the list.
# Guess: as ethereum/execution-apis describes and geth answers, a result with the addresses and slots that were read before
# the revert, the gas, and `error` beside them. So a tool that asks which code a call runs learns nothing of one that fails.
# Seen on 2026-11-29: error 3 "execution reverted" and no list; the same contract without the revert lists its slot.
set -euo pipefail
folder=$(mktemp -d)
trap '[ -n "${anvil:-}" ] && kill "$anvil" 2>/dev/null; rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund @foundry-rs/anvil@1.7.1 >/dev/null
port=$((20000 + RANDOM % 10000))
"$(find node_modules/@foundry-rs -path '*bin/anvil' -type f | head -n 1)" --port "$port" --silent &
anvil=$!

cat >expected <<'EXPECTED'
reads a slot and returns: result with 1 slot
reads a slot and reverts: error 3 "execution reverted", no list
EXPECTED
PORT=$port node --input-type=module >seen <<'PROGRAM'
const url = `http://127.0.0.1:${process.env.PORT}`
const ask = async (method, ...params) => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  return await (await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).json()
}
for (let tries = 0; tries < 100; tries += 1) {
  if (await ask('eth_chainId').catch(() => undefined)) break
  await new Promise((resolve) => setTimeout(resolve, 100))
}
// PUSH0 SLOAD POP, then PUSH0 PUSH0 and RETURN or REVERT.
for (const [end, opcode] of [['returns', 'f3'], ['reverts', 'fd']]) {
  const to = `0x${opcode.repeat(20)}`
  await ask('anvil_setCode', to, `0x5f54505f5f${opcode}`)
  const { result, error } = await ask('eth_createAccessList', { to }, 'latest')
  const slots = result?.accessList.flatMap(({ storageKeys }) => storageKeys).length
  const shown = result ? `result with ${slots} slot` : `error ${error.code} "${error.message.split(':')[0]}", no list`
  console.log(`reads a slot and ${end}: ${shown}`)
}
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
