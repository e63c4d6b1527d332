import { keccak256, parseTransaction, toFunctionSelector } from 'viem'
import { UPTO_PROXY_ADDRESS } from '#shared/chain/network/contracts.ts'
import { type RpcCall, type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'
import { type CalledPayment, paymentOfProxyCall, paymentsOfCall } from './pending-batches.ts'

/**
 * The purpose of a call to the node. `balance` is the API's first look at a new payer, `verify` is the API's check of a payment, `recheck` the worker's check before the
 * provider call, `prepare` the simulation of the charge; `reasons` reads why the chain rejects; `terms` is everything
 * that belongs to no payment: fees, blocks, account nonces.
 */
export type RpcStage = 'balance' | 'verify' | 'recheck' | 'prepare' | 'broadcast' | 'confirm' | 'reasons' | 'terms'

/** A fault of the calls of one payer, or of the `terms` of all, until it is healed. */
export interface ArmedFault {
  readonly payer: string | null
  readonly stages: readonly RpcStage[]
  readonly methods?: readonly string[]
  readonly fault: RpcFault
  /** How many calls it affects; default: all. */
  readonly times?: number
  /** How many calls it has affected. */
  hits: number
}

/** The proxies between API and node and between worker and node, which know whose payment a call is about. */
export interface RpcWatch {
  readonly api: RpcProxy
  readonly worker: RpcProxy
  arm(fault: Omit<ArmedFault, 'hits'>): ArmedFault
  heal(fault: ArmedFault): void
  stop(): Promise<void>
}

export async function watchRpc(rpcUrl: string): Promise<RpcWatch> {
  const [api, worker] = await Promise.all([startRpcProxy(rpcUrl), startRpcProxy(rpcUrl)])
  const armed = new Set<ArmedFault>()
  const payersOfHash = new Map<string, readonly string[]>()
  const faultFor = (call: RpcCall, from: 'api' | 'worker'): RpcFault | null => {
    const { payers, stage } = readCall(call, from, payersOfHash)
    for (const candidate of armed) {
      const { stages, methods, fault } = candidate
      const isTargeted = candidate.payer === null ? stage === 'terms' : payers.includes(candidate.payer.toLowerCase())
      if (!isTargeted || !stages.includes(stage) || (methods && !methods.includes(call.method))) continue
      candidate.hits += 1
      if (candidate.hits === candidate.times) armed.delete(candidate)
      return fault
    }
    return null
  }
  api.chooseFault((call) => faultFor(call, 'api'))
  worker.chooseFault((call) => faultFor(call, 'worker'))
  return {
    api,
    worker,
    arm: (fault) => {
      const added = { ...fault, hits: 0 }
      armed.add(added)
      return added
    },
    heal: (fault) => void armed.delete(fault),
    stop: async () => void (await Promise.all([api.stop(), worker.stop()])),
  }
}

interface ReadCall {
  /** Those whose payments it is about: several share a call. */
  readonly payers: readonly string[]
  readonly stage: RpcStage
}

const OF_NO_PAYMENT: ReadCall = { payers: [], stage: 'terms' }

function readCall(
  { method, params }: RpcCall,
  from: 'api' | 'worker',
  payersOfHash: Map<string, readonly string[]>,
): ReadCall {
  const [first] = params
  if (method === 'eth_call') return readEthCall(first as { to?: string; data?: `0x${string}` }, from)
  if (method === 'eth_sendRawTransaction') {
    const raw = first as `0x${string}`
    const { data, to } = parseTransaction(raw)
    const payers = data === undefined ? [] : paymentsIn(data, to ?? '').map(({ payer }) => payer)
    if (payers.length === 0) return OF_NO_PAYMENT
    payersOfHash.set(keccak256(raw), payers)
    return { payers, stage: 'broadcast' }
  }
  const payers = typeof first === 'string' ? payersOfHash.get(first) : undefined
  return payers === undefined ? OF_NO_PAYMENT : { payers, stage: 'confirm' }
}

const BALANCE_OF = toFunctionSelector('function balanceOf(address)')

function readEthCall(
  { to = '', data = '0x' }: { to?: string; data?: `0x${string}` },
  from: 'api' | 'worker',
): ReadCall {
  const payments = paymentsIn(data, to)
  if (payments.length > 0) {
    const payers = payments.map(({ payer }) => payer)
    if (from === 'api') return { payers, stage: 'verify' }
    return { payers, stage: payments.every(({ amount, maximum }) => amount === maximum) ? 'recheck' : 'prepare' }
  }
  // The first argument of balanceOf, allowance and nonceBitmap is the owner.
  const payers = data.length >= 74 ? [`0x${data.slice(34, 74)}`] : []
  return { payers, stage: from === 'api' && data.startsWith(BALANCE_OF) ? 'balance' : 'reasons' }
}

function paymentsIn(data: `0x${string}`, to: string): readonly CalledPayment[] {
  return to.toLowerCase() === UPTO_PROXY_ADDRESS ? [paymentOfProxyCall(data)] : paymentsOfCall(data)
}
