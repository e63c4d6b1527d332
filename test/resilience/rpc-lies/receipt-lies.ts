import { encodeAbiParameters, type Hex, pad, toEventSelector, toHex } from 'viem'
import type { RpcAnswer, RpcFault } from '../../support/chain/rpc-proxy.ts'

/** A log as a node writes it. */
interface Log {
  readonly address: Hex
  readonly topics: readonly Hex[]
  readonly data: Hex
}

type Logs = readonly Log[]

const TRANSFER = toEventSelector('Transfer(address,address,uint256)')
const SETTLED = toEventSelector('PaymentSettled(address,uint256,uint256)')
const FAILED = toEventSelector('PaymentFailed(address,uint256,uint256,bytes4)')
const ELSEWHERE = '0x000000000000000000000000000000000000dEaD'

export type EditLogs = (logs: Logs, payer: Hex) => Logs

function isAbout({ topics }: Log, payer: Hex): boolean {
  return topics[1]?.toLowerCase() === pad(payer).toLowerCase()
}

const isTransferOf = (log: Log, payer: Hex) => log.topics[0] === TRANSFER && isAbout(log, payer)
const isEventOf = (log: Log, payer: Hex) => log.topics[0] === SETTLED && isAbout(log, payer)

/** Changes the result of a call, which is an object. */
export function lieAbout(change: (result: Record<string, unknown>) => unknown): RpcFault {
  const changeAnswer = (truth: RpcAnswer): RpcAnswer =>
    'result' in truth && typeof truth.result === 'object' && truth.result !== null
      ? { result: change(truth.result as Record<string, unknown>) }
      : truth
  return { kind: 'lie', change: changeAnswer }
}

/** Changes the logs of a receipt, as regards the payment of one payer. */
export function lieAboutLogs(edit: EditLogs, payer: Hex): RpcFault {
  return lieAbout((receipt) => ({ ...receipt, logs: edit(receipt['logs'] as Logs, payer) }))
}

export const withoutEvent: EditLogs = (logs, payer) => logs.filter((log) => !isEventOf(log, payer))

export const withoutTransfer: EditLogs = (logs, payer) => logs.filter((log) => !isTransferOf(log, payer))

export const withoutPayment: EditLogs = (logs, payer) => withoutEvent(withoutTransfer(logs, payer), payer)

export const ofOtherAmount: EditLogs = (logs, payer) =>
  logs.map((log) => (isTransferOf(log, payer) ? { ...log, data: toHex(1n, { size: 32 }) } : log))

export const toOtherRecipient: EditLogs = (logs, payer) =>
  logs.map((log) => (isTransferOf(log, payer) ? { ...log, topics: [...log.topics.slice(0, 2), pad(ELSEWHERE)] } : log))

export const ofOtherContract: EditLogs = (logs, payer) =>
  logs.map((log) => (isEventOf(log, payer) ? { ...log, address: ELSEWHERE } : log))

export const ofOtherToken: EditLogs = (logs, payer) =>
  logs.map((log) => (isTransferOf(log, payer) ? { ...log, address: ELSEWHERE } : log))

/** Its transfer stands before the event of another payment. */
export const inOtherOrder: EditLogs = (logs) => logs.toReversed()

/** The contract reports that the payment failed, and there is no transfer. */
export const asFailed: EditLogs = (logs, payer) =>
  withoutTransfer(logs, payer).map((log) =>
    isEventOf(log, payer)
      ? {
          ...log,
          topics: [FAILED, ...log.topics.slice(1)],
          data: `${log.data}${encodeAbiParameters([{ type: 'bytes4' }], ['0x00000000']).slice(2)}` as Hex,
        }
      : log,
  )
