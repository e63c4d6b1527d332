import { writeFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import { buildSettlementContract } from '../../contracts/build-settlement-contract.ts'
import { readSettlementArtifact } from '../../contracts/settlement-artifact.ts'

const ARTIFACT = new URL('../../contracts/SettlementContract.json', import.meta.url)

/**
 * Compiles `infra/contracts/SettlementContract.sol`. With `--write` it replaces the artifact next to it; otherwise it
 * compares the two and exits with 1 when they differ.
 */
const built = await buildSettlementContract()
if (process.argv.includes('--write')) {
  await writeFile(ARTIFACT, `${JSON.stringify(built, null, 2)}\n`)
  console.log(`Wrote ${ARTIFACT.pathname}\nruntime code hash ${built.runtimeCodeHash}`)
} else if (isDeepStrictEqual(built, await readSettlementArtifact())) {
  console.log(`The artifact is what solc ${built.compiler.version} makes of the source.`)
  console.log(`runtime code hash ${built.runtimeCodeHash}`)
} else {
  console.error('The artifact differs from what the source compiles to.')
  process.exitCode = 1
}
