import { decodePaymentResponseHeader } from '@x402/core/http'
import { expect } from 'vitest'
import { createPayingClient } from '../../../infra/sandbox/paying-client.ts'
import { payForCall } from '../payer/paid-call.ts'
import type { PayerOfAnyKind } from '../payer/payer.ts'
import type { SharedSandbox } from '../processes/test-sandbox.ts'

export const CHAT_PATH = '/v1/chat/completions'
export const CHAT = {
  model: 'textmodel-2.5-flash',
  messages: [{ role: 'user', content: 'Good evening.' }],
  max_tokens: 50,
}

/** Returns the sandbox with the official client of a wallet as its payer. */
export function payingWith(sandbox: SharedSandbox, { account }: Pick<PayerOfAnyKind, 'account'>): SharedSandbox {
  const { rpcUrl, network } = sandbox.info
  return { ...sandbox, payer: createPayingClient({ account, rpcUrl, network }) }
}

/**
 * Pays for two calls, repeats the first and pays for as many more at once. Asserts that each is answered, and that the
 * chain has exactly one transfer of its charge for each.
 */
export async function payAsWallet(
  sandbox: SharedSandbox,
  wallet: Pick<PayerOfAnyKind, 'address' | 'account'>,
  atOnce: number,
): Promise<void> {
  const paying = payingWith(sandbox, wallet)
  const first = await payForCall(paying, CHAT_PATH, CHAT)
  const second = await payForCall(paying, CHAT_PATH, CHAT)
  const repeated = await first.repeat()
  expect([repeated.status, Buffer.from(await repeated.arrayBuffer())]).toEqual([200, first.bytes])
  const answers = await Promise.all(Array.from({ length: atOnce }, () => fetchPaid(paying)))
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
  const charges = answers.map(({ headers }) => BigInt(settlementOf(headers).amount ?? 0))
  const transfers = await transfersOf(sandbox, wallet)
  const paid = [first.chargedAtomic, second.chargedAtomic, ...charges]
  expect(transfers.toSorted(ascending)).toEqual(paid.toSorted(ascending))
}

const ascending = (one: bigint, other: bigint) => Number(one - other)

function fetchPaid({ payer, info }: SharedSandbox): Promise<Response> {
  const headers = { 'content-type': 'application/json', 'x-idempotency-key': crypto.randomUUID() }
  return payer.fetch(`${info.baseUrl}${CHAT_PATH}`, { method: 'POST', headers, body: JSON.stringify(CHAT) })
}

function settlementOf(headers: Headers) {
  return decodePaymentResponseHeader(headers.get('payment-response') ?? '')
}

/** Returns the amounts that a wallet transferred to the recipient. */
export async function transfersOf(
  { chain, info }: SharedSandbox,
  { address }: Pick<PayerOfAnyKind, 'address'>,
): Promise<readonly bigint[]> {
  const all = await chain.transfersTo(info.payTo)
  return all.filter(({ from }) => from.toLowerCase() === address).map(({ valueAtomic }) => valueAtomic)
}
