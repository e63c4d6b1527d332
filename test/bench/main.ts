import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const HERE = new URL('./', import.meta.url)

/** Runs the measurements of this folder one after the other, or those named: `npm run bench -- signed-retry`. */
const names = readdirSync(HERE)
  .filter((name) => name.endsWith('.ts') && name !== 'main.ts')
  .map((name) => name.slice(0, -'.ts'.length))
const wanted = process.argv.slice(2)
const unknown = wanted.filter((name) => !names.includes(name))
if (unknown.length > 0 || wanted.includes('--help')) {
  console.log(`Usage: npm run bench [-- name …]\n\nMeasurements: ${names.join(', ')}`)
  process.exit(wanted.includes('--help') ? 0 : 2)
}
for (const name of wanted.length > 0 ? wanted : names) {
  console.log(`\n${name}`)
  const { status } = spawnSync(process.execPath, [fileURLToPath(new URL(`${name}.ts`, HERE))], { stdio: 'inherit' })
  if (status !== 0) process.exitCode = 1
}
