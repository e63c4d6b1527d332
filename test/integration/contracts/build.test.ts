import { readdir } from 'node:fs/promises'
import { type AbiEvent, type AbiFunction, keccak256, toEventSelector, toFunctionSelector } from 'viem'
import { beforeAll, describe, expect, it } from 'vitest'
import { batchSettlementAbi, SETTLEMENT_CONTRACT_CODE_HASH } from '#shared/adapters/chain/network/contracts.ts'
import { buildSettlementContract } from '../../../infra/contracts/build-settlement-contract.ts'
import { readSettlementArtifact, type SettlementArtifact } from '../../../infra/contracts/settlement-artifact.ts'

let artifact: SettlementArtifact
beforeAll(async () => {
  artifact = await readSettlementArtifact()
})

describe('the artifact of the settlement contract', () => {
  it('is what the compiler of the lockfile makes of the source, byte for byte', async () => {
    expect(await buildSettlementContract()).toEqual(artifact)
  })

  it('has the code whose hash API and workers require', () => {
    expect(keccak256(artifact.runtimeCode)).toBe(SETTLEMENT_CONTRACT_CODE_HASH)
    expect(artifact.runtimeCodeHash).toBe(SETTLEMENT_CONTRACT_CODE_HASH)
  })

  it('has every function, event and error that the service uses', () => {
    const own = new Set(artifact.abi.map(describeItem))
    for (const item of batchSettlementAbi) expect(own).toContain(describeItem(item as never))
  })

  it('takes no native token, delegates to no code and cannot be destroyed', async () => {
    for (const item of artifact.abi) expect('stateMutability' in item && item.stateMutability).not.toBe('payable')
    expect(artifact.abi.some(({ type }) => type === 'receive' || type === 'fallback')).toBe(false)
    const opcodes = instructionsOf(artifact.runtimeCode)
    for (const forbidden of [0xf0, 0xf2, 0xf4, 0xf5, 0xff]) expect(opcodes).not.toContain(forbidden)
    expect(await readdir(new URL('../../../infra/contracts/', import.meta.url))).toContain('BatchSettlement.sol')
  })
})

function describeItem(item: SettlementArtifact['abi'][number]): string {
  if (item.type === 'function') return `function ${toFunctionSelector(item)} ${outputsOf(item)}`
  if (item.type === 'event') return `event ${toEventSelector(item)} ${indexedOf(item)}`
  if (item.type === 'error') return `error ${item.name}(${item.inputs.map(({ type }) => type).join()})`
  return item.type
}

const outputsOf = ({ outputs, stateMutability }: AbiFunction) =>
  JSON.stringify([outputs.map(({ type }) => type), stateMutability])
const indexedOf = ({ inputs }: AbiEvent) => JSON.stringify(inputs.map(({ indexed = false }) => indexed))

/** Returns the opcodes of a code, without the operands of PUSH instructions. */
function instructionsOf(code: `0x${string}`): ReadonlySet<number> {
  const bytes = Buffer.from(code.slice(2), 'hex')
  const found = new Set<number>()
  for (let at = 0; at < bytes.length; at++) {
    const opcode = bytes.readUInt8(at)
    found.add(opcode)
    if (opcode >= 0x60 && opcode <= 0x7f) at += opcode - 0x5f
  }
  return found
}
