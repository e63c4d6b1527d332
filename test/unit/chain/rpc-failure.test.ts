import { RpcRequestError } from 'viem'
import { expect, it } from 'vitest'
import { isMissingBlock, isRateLimit } from '#shared/adapters/chain/network/rpc-failure.ts'

const url = 'http://127.0.0.1'
const nodeError = (message: string, code = -32_000) => new RpcRequestError({ body: {}, url, error: { code, message } })

it.each([
  ['daily request count exceeded, request rate limited'],
  ['project ID request rate exceeded'],
  ['Too Many Requests'],
  ['Your app has exceeded its compute units per second capacity'],
  ['50/second request limit reached - reduce calls per second'],
  ['over rate limit'],
])('recognizes "%s" as the refusal of a key rather than of a call', (message) => {
  expect(isRateLimit(nodeError(message))).toBe(true)
})

it.each([
  ['nonce too low'],
  ['query returned more than 10000 results'],
  ['method handler crashed'],
  ['execution reverted: rate limit'],
])('does not take "%s" for a rate limit', (message) => {
  expect(isRateLimit(nodeError(message))).toBe(false)
})

it('does not take the text of a revert, which a payer may have written, for an error of the node', () => {
  expect(isMissingBlock(nodeError('header not found'))).toBe(true)
  expect(isMissingBlock(nodeError('execution reverted: header not found'))).toBe(false)
  expect(isMissingBlock(nodeError('block not found', 3))).toBe(false)
})
