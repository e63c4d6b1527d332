import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { x402Facilitator } from '@x402/core/facilitator'
import type { PaymentPayload, PaymentRequirements } from '@x402/core/types'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { UptoEvmScheme } from '@x402/evm/upto/facilitator'
import { createNonceManager, createWalletClient, http, publicActions } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { jsonRpc } from 'viem/nonce'
import { base } from '#shared/chain/network/base-chain.ts'
import { waitForReceipt } from '../../../infra/sandbox/chain/wait-for-receipt.ts'

const NETWORK = 'eip155:8453'

/**
 * A fault between a client and a facilitator. `reset` closes before it sees the request; `lost_answer` lets it act
 * first; `hang` never answers; `status` and `body` answer instead of it.
 */
export type FacilitatorFault =
  | { readonly kind: 'reset' | 'lost_answer' | 'hang' }
  | { readonly kind: 'status'; readonly status: number }
  | { readonly kind: 'body'; readonly status: number; readonly body: unknown }

export type FacilitatorPath = '/verify' | '/settle' | '/supported'

/** The SDK's facilitator served over HTTP, as an integrator would do it, behind a fault proxy. */
export interface SdkFacilitator {
  readonly url: string
  readonly address: `0x${string}`
  /** Paths of the received requests, in order, including those that met a fault. */
  readonly requests: readonly string[]
  readonly authorizationHeaders: readonly (string | undefined)[]
  /** Applies the fault to requests to the path, permanently or `times` times; `null` lets them pass. */
  setFault(path: FacilitatorPath, fault: FacilitatorFault | null, times?: number): void
  stop(): Promise<void>
}

/**
 * Starts the SDK's facilitator with one key, wired as documented, with viem's nonce manager and anvil's wait for
 * receipts.
 */
export function createSdkFacilitator(rpcUrl: string, privateKey: `0x${string}`): x402Facilitator {
  // viem's exported nonce manager is a singleton whose state would outlive the chain.
  const account = privateKeyToAccount(privateKey, { nonceManager: createNonceManager({ source: jsonRpc() }) })
  const transport = http(rpcUrl)
  const client = createWalletClient({ account, chain: base, transport }).extend(publicActions)
  const signer = toFacilitatorEvmSigner(
    Object.assign(client, {
      address: account.address,
      waitForTransactionReceipt: ({ hash }: { readonly hash: `0x${string}` }) => waitForReceipt(client as never, hash),
    }) as never,
  )
  return new x402Facilitator().register(NETWORK, new UptoEvmScheme(signer))
}

export async function startSdkFacilitator(rpcUrl: string, privateKey: `0x${string}`): Promise<SdkFacilitator> {
  const facilitator = createSdkFacilitator(rpcUrl, privateKey)
  const requests: string[] = []
  const authorizationHeaders: (string | undefined)[] = []
  const faults = new Map<string, { fault: FacilitatorFault; times: number }>()
  const takeFault = (path: string): FacilitatorFault | null => {
    const current = faults.get(path)
    if (!current) return null
    current.times -= 1
    if (current.times <= 0) faults.delete(path)
    return current.fault
  }
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url ?? ''
    requests.push(path)
    authorizationHeaders.push(request.headers.authorization)
    const body = await text(request)
    const fault = takeFault(path)
    if (fault && fault.kind !== 'lost_answer') return answerFaulty(fault, request, response)
    const result = await act(facilitator, path, body)
    if (fault) request.socket.destroy()
    else sendJson(response, 200, result)
  }
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => sendJson(response, 500, { error: String(error) }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    address: privateKeyToAccount(privateKey).address.toLowerCase() as `0x${string}`,
    requests,
    authorizationHeaders,
    setFault: (path, fault, times = Number.POSITIVE_INFINITY) => {
      if (fault) faults.set(path, { fault, times })
      else faults.delete(path)
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function act(facilitator: x402Facilitator, path: string, body: string): Promise<unknown> {
  if (path === '/supported') return facilitator.getSupported()
  const { paymentPayload, paymentRequirements } = JSON.parse(body) as {
    paymentPayload: PaymentPayload
    paymentRequirements: PaymentRequirements
  }
  return path === '/verify'
    ? await facilitator.verify(paymentPayload, paymentRequirements)
    : await facilitator.settle(paymentPayload, paymentRequirements)
}

function answerFaulty(fault: FacilitatorFault, request: IncomingMessage, response: ServerResponse): void {
  switch (fault.kind) {
    case 'hang':
      return
    case 'reset':
    case 'lost_answer':
      request.socket.destroy()
      return
    case 'status':
      response.writeHead(fault.status, { 'content-type': 'text/plain' }).end('upstream connect error')
      return
    case 'body':
      sendJson(response, fault.status, fault.body)
  }
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
