import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { composePayment } from '../../../api/composition/payment.ts'
import { readConfig } from '../../../api/config.ts'
import { deploySettlementContract } from '../../../infra/sandbox/chain/contracts/deploy-settlement-contract.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'

type Hex = `0x${string}`

let devnet: TestDevnet
let contract: Hex
let keys: readonly [Hex, Hex]
const older = newAddress()
beforeAll(async () => {
  devnet = await startTestDevnet()
  keys = [devnet.accounts.settlement.address.toLowerCase() as Hex, newAddress()]
  const owner = devnet.accounts.recipient.address
  contract = (await deploySettlementContract(devnet.rpcUrl, { owner, keys: keys.slice(0, 1) })).toLowerCase() as Hex
})
afterAll(() => devnet.stop())

function newAddress(): Hex {
  return privateKeyToAccount(generatePrivateKey()).address.toLowerCase() as Hex
}

const settings = (changes: Record<string, string>) =>
  readConfig({
    DATABASE_URL: 'postgres://farebox@127.0.0.1/farebox',
    OBJECT_STORE_DIRECTORY: '/objects',
    RPC_URL: devnet.rpcUrl,
    PUBLIC_BASE_URL: 'http://127.0.0.1:8402',
    DEPLOYMENTS_FILE: '/deployments.json',
    PAY_TO: newAddress(),
    FACILITATOR_ADDRESSES: keys.join(','),
    CHALLENGE_SECRET: 'c'.repeat(32),
    RECEIPT_SIGNING_KEY: `k1:${'ab'.repeat(32)}`,
    RECEIPT_SECRETS: `k1:${'r'.repeat(32)}`,
    CONTACT_EMAIL: 'operator@farebox.example',
    ...changes,
  })
const compose = (changes: Record<string, string>) => composePayment(settings(changes), () => new Date())

describe('an API with a settlement contract', () => {
  it('names the contract in challenges, and accepts payments to it, to the keys and to those of a change', async () => {
    const { dependencies, keys: senders } = await compose({
      SETTLEMENT_CONTRACT: contract,
      ACCEPTED_FACILITATOR_ADDRESSES: `${older},${keys[0]}`,
    })
    expect(dependencies.terms.facilitators).toEqual([contract])
    expect(dependencies.terms.acceptedFacilitators).toEqual([contract, ...keys, older])
    expect(senders).toEqual(keys)
  })

  it('without one names the keys, and accepts no payment to a contract', async () => {
    const { dependencies } = await compose({})
    expect(dependencies.terms.facilitators).toEqual(keys)
    expect(dependencies.terms.acceptedFacilitators).toEqual(keys)
  })

  it('accepts payments to a contract that was removed from the settings for as long as it is listed', async () => {
    const { dependencies } = await compose({ ACCEPTED_FACILITATOR_ADDRESSES: contract })
    expect(dependencies.terms.facilitators).toEqual(keys)
    expect(dependencies.terms.acceptedFacilitators).toEqual([...keys, contract])
  })

  it('does not start with an address that is no settlement contract, or one that lists none of its keys', async () => {
    await expect(compose({ SETTLEMENT_CONTRACT: newAddress() })).rejects.toThrow(/^SETTLEMENT_CONTRACT: there is no/)
    const strange = { SETTLEMENT_CONTRACT: contract, FACILITATOR_ADDRESSES: keys[1] }
    await expect(compose(strange)).rejects.toThrow(/^SETTLEMENT_CONTRACT: .* lists none of the settlement keys/)
  })

  it('starts while the chain cannot be reached', async () => {
    const { dependencies } = await compose({ SETTLEMENT_CONTRACT: contract, RPC_URL: 'http://127.0.0.1:1' })
    expect(dependencies.terms.facilitators).toEqual([contract])
  })
})
