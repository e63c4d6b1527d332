import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { readSupportedFacilitators, untilSupported } from '#shared/adapters/remote-facilitator/read-supported.ts'
import { createRemoteVerifier } from '#shared/adapters/remote-facilitator/verifier.ts'
import { createChainClient } from '#shared/chain/network/client.ts'
import { createAuthorizationVerifier } from '#shared/chain/verification/authorization-verifier.ts'
import { createPayerCodePolicy } from '#shared/chain/verification/payer-code.ts'
import type { Authorization } from '#shared/payment/authorization.ts'
import type { AuthorizationVerifier } from '#shared/payment/facilitator.ts'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { createDelegatingPayer } from '../../support/chain/delegating-payer.ts'
import { startTestDevnet, type TestDevnet } from '../../support/chain/devnet.ts'
import { type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type FacilitatorFault, type SdkFacilitator, startSdkFacilitator } from '../../support/chain/sdk-facilitator.ts'
import { PATIENCE_MS } from '../../support/patience.ts'
import { createPayer } from '../../support/payer/payer.ts'
import { signAuthorization } from '../../support/payer/sign-authorization.ts'

const NETWORK = 'eip155:8453'
let devnet: TestDevnet
let ourNode: RpcProxy
let facilitatorNode: RpcProxy
let facilitator: SdkFacilitator
let verifier: AuthorizationVerifier
beforeAll(async () => {
  devnet = await startTestDevnet()
  ;[ourNode, facilitatorNode] = await Promise.all([startRpcProxy(devnet.rpcUrl), startRpcProxy(devnet.rpcUrl)])
  facilitator = await startSdkFacilitator(facilitatorNode.url, devnet.accounts.settlement.privateKey)
  const client = createChainClient(ourNode.url, PATIENCE_MS)
  const payerCode = createPayerCodePolicy(client)
  const own = createAuthorizationVerifier(client, 8453, { payerCode })
  verifier = createRemoteVerifier({ url: `${facilitator.url}/`, apiKey: 'key-of-the-operator' }, own)
})
afterEach(() => {
  for (const node of [ourNode, facilitatorNode]) node.setFault(null)
  for (const path of ['/verify', '/supported'] as const) facilitator.setFault(path, null)
})
afterAll(async () => {
  await facilitator.stop()
  await Promise.all([ourNode.stop(), facilitatorNode.stop()])
  await devnet.stop()
})
const verify = (authorization: Authorization) => verifier.verify(authorization, authorization.authorizedMaximum)
const refusing = (invalidReason: string, status = 200): FacilitatorFault => ({
  kind: 'body',
  status,
  body: { isValid: false, invalidReason, payer: '0x' },
})
/** Sets the response of `/supported`. */
function setSupported(kinds: unknown, signers: unknown): void {
  facilitator.setFault('/supported', { kind: 'body', status: 200, body: { kinds, signers } })
}

describe('verifying a payment that could be settled', () => {
  it('accepts a permit or an approval and sends the operator’s API key', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    expect(await verify(await signAuthorization(devnet, payer))).toEqual({ outcome: 'valid', needsPermit: true })
    await payer.approve()
    expect(await verify(await signAuthorization(devnet, payer, { gasSponsored: false }))).toEqual({
      outcome: 'valid',
      needsPermit: false,
    })
    expect(facilitator.authorizationHeaders.at(-1)).toBe('Bearer key-of-the-operator')
  })

  it.for<FacilitatorFault>([
    { kind: 'hang' },
    { kind: 'reset' },
    { kind: 'lost_answer' },
    { kind: 'status', status: 500 },
    { kind: 'status', status: 401 },
    { kind: 'status', status: 200 },
    { kind: 'body', status: 200, body: {} },
    refusing('permit2_insufficient_balance', 500),
    refusing('permit2_insufficient_balance'),
    refusing('permit2_allowance_required'),
    refusing('unexpected_verify_error: http://user:secret@node.example'),
    refusing('toString'),
  ])('reports unreachable, never refused, when the facilitator answers %j', async (fault) => {
    const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl))
    facilitator.setFault('/verify', fault)
    const verification = await verify(authorization)
    expect(verification.outcome).toBe('unreachable')
    expect(String(verification.outcome === 'unreachable' && verification.cause)).not.toContain('secret')
  })

  it('reports unreachable, never refused, when the facilitator’s own node fails', async () => {
    const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl))
    for (const fault of [{ kind: 'status', status: 500 }, { kind: 'reset' }, { kind: 'html' }] as const) {
      facilitatorNode.setFault(fault)
      expect(await verify(authorization)).toMatchObject({ outcome: 'unreachable' })
    }
  })

  it('reports unreachable, never refused, when neither node answers', async () => {
    const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl))
    facilitatorNode.setFault({ kind: 'status', status: 500 })
    ourNode.setFault({ kind: 'status', status: 500 })
    expect(await verify(authorization)).toMatchObject({ outcome: 'unreachable' })
  })
})

describe('verifying a payment that could not be settled', () => {
  it('refuses a payer without funds', async () => {
    const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }))
    expect(await verify(authorization)).toMatchObject({ outcome: 'refused', code: 'insufficient_funds' })
  })

  it('refuses a payment without an allowance', async () => {
    const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl), { gasSponsored: false })
    expect(await verify(authorization)).toMatchObject({ outcome: 'refused', code: 'permit2_allowance_required' })
  })

  it('refuses a used nonce', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const authorization = await signAuthorization(devnet, payer)
    await payer.invalidateNonce(authorization.nonce)
    expect(await verify(authorization)).toMatchObject({ outcome: 'refused', code: 'payment_nonce_used' })
  })

  it('refuses a passed deadline and a start in the future', async () => {
    const payer = await createPayer(devnet.rpcUrl)
    const nowSeconds = BigInt(Math.floor(Date.now() / 1000))
    expect(await verify(await signAuthorization(devnet, payer, { deadline: nowSeconds - 1n }))).toEqual({
      outcome: 'refused',
      code: 'payment_expired',
    })
    expect(await verify(await signAuthorization(devnet, payer, { validAfter: nowSeconds + 500n }))).toEqual({
      outcome: 'refused',
      code: 'payment_not_yet_valid',
    })
  })

  it('refuses a payment for another facilitator', async () => {
    const elsewhere = privateKeyToAccount(generatePrivateKey()).address
    const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl), { facilitator: elsewhere })
    expect(await verify(authorization)).toEqual({ outcome: 'refused', code: 'payment_rejected' })
  })

  it('accepts a refusal with a 4xx status from the facilitator', async () => {
    const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl, { usdcAtomic: 0n }))
    facilitator.setFault('/verify', refusing('permit2_insufficient_balance', 400))
    expect(await verify(authorization)).toMatchObject({ outcome: 'refused', code: 'insufficient_funds' })
  })
})

describe('reading the facilitator’s addresses', () => {
  const read = () => readSupportedFacilitators({ url: facilitator.url, apiKey: undefined }, NETWORK)
  const kind = { x402Version: 2, scheme: 'upto', network: NETWORK }
  it('reads the addresses of /supported in lower case', async () => {
    expect(await read()).toEqual([facilitator.address])
  })

  it('returns all signers in the same order, whichever of them /supported names', async () => {
    const [first, second] = ['0xAAaAaaAAAaAaAaaaaAAaAaAaaAaaAaaAaaaaAAAa', `0x${'b'.repeat(40)}`]
    for (const facilitatorAddress of [first, second]) {
      setSupported([{ ...kind, extra: { facilitatorAddress } }], { 'eip155:*': [second, first] })
      expect(await read()).toEqual([`0x${'a'.repeat(40)}`, second])
    }
  })

  it('throws the reason when the facilitator supports another scheme, network or version', async () => {
    const extra = { facilitatorAddress: facilitator.address }
    for (const other of [{ scheme: 'exact' }, { network: 'eip155:84532' }, { x402Version: 1 }]) {
      setSupported([{ ...kind, extra, ...other }], {})
      await expect(read()).rejects.toThrow('does not support scheme "upto" on eip155:8453')
    }
    setSupported([kind], {})
    await expect(read()).rejects.toThrow('names no facilitatorAddress')
  })

  it('throws with the name of the setting when the facilitator cannot be reached', async () => {
    facilitator.setFault('/supported', { kind: 'reset' })
    await expect(read()).rejects.toThrow('FACILITATOR_URL does not answer GET /supported')
  })

  const wait = (url: string, onWait: (error: Error) => void) =>
    untilSupported({ url, apiKey: undefined }, NETWORK, onWait)
  it.each<FacilitatorFault>([
    { kind: 'reset' },
    { kind: 'lost_answer' },
    { kind: 'status', status: 429 },
    { kind: 'status', status: 500 },
    { kind: 'status', status: 502 },
    { kind: 'status', status: 503 },
  ])('waits for a facilitator that is away: $kind $status', async (fault) => {
    facilitator.setFault('/supported', fault)
    const errors: Error[] = []
    const waiting = wait(facilitator.url, (error) => {
      errors.push(error)
      facilitator.setFault('/supported', null)
    })
    expect(await waiting).toEqual([facilitator.address])
    expect(errors.map(({ message }) => message)).toEqual([
      'the facilitator of FACILITATOR_URL does not answer GET /supported',
    ])
  })

  it('waits for a facilitator whose port is closed', async () => {
    const waiting = wait(`http://127.0.0.1:${await findFreePort()}`, ({ message }) => {
      throw new Error(`waits: ${message}`)
    })
    await expect(waiting).rejects.toThrow('waits: the facilitator of FACILITATOR_URL')
  })

  it.each<FacilitatorFault>([
    { kind: 'status', status: 401 },
    { kind: 'status', status: 404 },
    { kind: 'body', status: 200, body: 'a page' },
    { kind: 'body', status: 200, body: { kinds: [], signers: {}, extensions: [] } },
  ])('does not wait for what is no facilitator of this network: $kind $status $body', async (fault) => {
    facilitator.setFault('/supported', fault)
    await expect(wait(facilitator.url, () => undefined)).rejects.toThrow('FACILITATOR_URL')
  })
})

describe('a payer whose account has code', () => {
  it('refuses a payer whose account has code, although the facilitator accepts the payment', async () => {
    const payer = await createDelegatingPayer(devnet.rpcUrl)
    const authorization = await signAuthorization(devnet, payer, { gasSponsored: false })
    expect(await verify(authorization)).toMatchObject({ outcome: 'refused', code: 'payer_has_code' })
    const client = createChainClient(ourNode.url, PATIENCE_MS)
    const payerCode = createPayerCodePolicy(client, [payer.delegate])
    const own = createAuthorizationVerifier(client, 8453, { payerCode })
    const allowing = createRemoteVerifier({ url: facilitator.url, apiKey: undefined }, own)
    expect(await allowing.verify(authorization, authorization.authorizedMaximum)).toMatchObject({ outcome: 'valid' })
  })

  it('ignores the facilitator’s verdict while our node cannot read the payer’s code', async () => {
    const authorization = await signAuthorization(devnet, await createPayer(devnet.rpcUrl))
    ourNode.setFault({ kind: 'status', status: 500 }, 'eth_getCode')
    expect(await verify(authorization)).toMatchObject({ outcome: 'unreachable' })
  })
})
