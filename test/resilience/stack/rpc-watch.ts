import { x402UptoPermit2ProxyABI } from '@x402/evm'
import { decodeFunctionData, keccak256, parseTransaction, toFunctionSelector } from 'viem'
import { UPTO_PROXY_ADDRESS } from '#shared/adapters/chain/network/contracts.ts'
import { type RpcCall, type RpcFault, type RpcProxy, startRpcProxy } from '../../support/chain/rpc-proxy.ts'

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
  const payerOfHash = new Map<string, string>()
  const faultFor = (call: RpcCall, from: 'api' | 'worker'): RpcFault | null => {
    const { payer, stage } = readCall(call, from, payerOfHash)
    for (const candidate of armed) {
      const { stages, methods, fault } = candidate
      const isTargeted = candidate.payer === null ? stage === 'terms' : candidate.payer.toLowerCase() === payer
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
  readonly payer: string | null
  readonly stage: RpcStage
}

function readCall({ method, params }: RpcCall, from: 'api' | 'worker', payerOfHash: Map<string, string>): ReadCall {
  const [first] = params
  if (method === 'eth_call') return readEthCall(first as { to?: string; data?: `0x${string}` }, from)
  if (method === 'eth_sendRawTransaction') {
    const raw = first as `0x${string}`
    const { data, to } = parseTransaction(raw)
    if (data === undefined || to?.toLowerCase() !== UPTO_PROXY_ADDRESS) return { payer: null, stage: 'terms' }
    const { payer } = readSettlement(data)
    payerOfHash.set(keccak256(raw), payer)
    return { payer, stage: 'broadcast' }
  }
  const payer = typeof first === 'string' ? payerOfHash.get(first) : undefined
  return payer === undefined ? { payer: null, stage: 'terms' } : { payer, stage: 'confirm' }
}

const BALANCE_OF = toFunctionSelector('function balanceOf(address)')

function readEthCall(
  { to = '', data = '0x' }: { to?: string; data?: `0x${string}` },
  from: 'api' | 'worker',
): ReadCall {
  if (to.toLowerCase() !== UPTO_PROXY_ADDRESS) {
    // The first argument of balanceOf, allowance and nonceBitmap is the owner.
    const payer = data.length >= 74 ? `0x${data.slice(34, 74)}` : null
    return { payer, stage: from === 'api' && data.startsWith(BALANCE_OF) ? 'balance' : 'reasons' }
  }
  const { payer, amount, maximum } = readSettlement(data)
  if (from === 'api') return { payer, stage: 'verify' }
  return { payer, stage: amount === maximum ? 'recheck' : 'prepare' }
}

function readSettlement(data: `0x${string}`) {
  const { functionName, args } = decodeFunctionData({ abi: x402UptoPermit2ProxyABI, data })
  if (functionName !== 'settle' && functionName !== 'settleWithPermit')
    throw new Error(`${functionName} settles nothing`)
  const [permit, amount, owner] = functionName === 'settle' ? args : ([args[1], args[2], args[3]] as const)
  return { payer: owner.toLowerCase(), amount, maximum: permit.permitted.amount }
}
