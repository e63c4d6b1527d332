import { HttpRequestError, RpcRequestError } from 'viem'
import { expect, it } from 'vitest'
import { isMissingBlock, isRateLimit, isTooLarge } from '#shared/adapters/chain/network/rpc-failure.ts'

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

it.each([
  ['oversized data: transaction size 131100, limit 131072'],
  ['exceeds block gas limit'],
  ['transaction gas limit too high (cap: 16777216, tx: 17000000)'],
  ['transaction gas limit (17000000) is greater than the cap (16777216)'],
  ['transaction\u2019s gas limit 40000000 exceeds block\u2019s gas limit 30000000'],
  ["transaction's gas limit 17000000 exceeds the max allowed per transaction gas limit 16777216"],
  ['Transaction gas limit is greater than the block gas limit, gas_limit: 40000000'],
  ['intrinsic gas too high -- tx.gas > env.block.gas_limit'],
  ['MaxTxSizeExceeded'],
  ['TxGasLimitCapExceeded'],
  ['EXCEEDS_BLOCK_GAS_LIMIT'],
  ['request entity too large'],
])('recognizes "%s" as a refusal of the size', (message) => {
  expect(isTooLarge(nodeError(message))).toBe(true)
})

it.each([
  ['intrinsic gas too low: gas 21000, minimum needed 60000'],
  ['call gas cost (60000) exceeds the gas limit (21000)'],
  ['insufficient funds for gas * price + value'],
  ['max fee per gas less than block base fee'],
  ['replacement transaction underpriced'],
  ['execution reverted: request body too large'],
])('does not take "%s" for a refusal of the size', (message) => {
  expect(isTooLarge(nodeError(message))).toBe(false)
})

it('recognizes a gateway that refuses the size of a request by its status', () => {
  expect(isTooLarge(new HttpRequestError({ url, status: 413 }))).toBe(true)
  expect(isTooLarge(new HttpRequestError({ url, status: 502, details: 'payload too large' }))).toBe(false)
})
