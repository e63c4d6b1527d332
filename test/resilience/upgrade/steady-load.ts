import type { CallKind } from '../calls/call-requests.ts'
import type { CallRecord } from '../checker/ledgers.ts'
import type { CampaignStack } from '../stack/stack.ts'
import { untilReached } from '../stack/until-reached.ts'

const KINDS: readonly CallKind[] = ['chat', 'message', 'image', 'speech', 'transcription']

/** Callers who make one call after the other. */
export interface SteadyLoad {
  /** Waits until this many further calls are finished. */
  untilFinished(calls: number): Promise<void>
  /** Lets every caller finish its call, and returns all calls. */
  stop(): Promise<readonly CallRecord[]>
}

/** Starts as many concurrent callers, with calls of all kinds. */
export function startSteadyLoad(
  { caller, payers }: Pick<CampaignStack, 'caller' | 'payers'>,
  callers: number,
): SteadyLoad {
  const stopping = new AbortController()
  const finished: CallRecord[] = []
  const everyone = [...payers.approved, ...payers.sponsored]
  const callOn = async (index: number) => {
    const payer = everyone[index % everyone.length]
    if (!payer) throw new Error('the stack has no payers')
    for (let call = index; !stopping.signal.aborted; call += 1) {
      const kind = KINDS[call % KINDS.length] ?? 'chat'
      finished.push(await caller.start({ kind, payer }).finished)
    }
  }
  const running = Promise.all(Array.from({ length: callers }, (_, index) => callOn(index)))
  return {
    untilFinished: async (calls) => {
      const goal = finished.length + calls
      await untilReached(`${goal} calls are finished`, async () => finished.length >= goal)
    },
    stop: async () => {
      stopping.abort()
      await running
      return finished
    },
  }
}
