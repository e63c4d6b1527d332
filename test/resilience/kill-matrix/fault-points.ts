import type { FaultRuleInput } from '../../../infra/sandbox/upstream/faults.ts'
import type { CallKind } from '../calls/call-requests.ts'
import type { PointAction } from '../processes/reach-point.ts'
import { LEASE_SECONDS } from '../stack/stack.ts'

/** One row of the matrix: where a process fails, how, and what must happen for it to get there. */
export interface FaultPoint {
  readonly name: string
  readonly action: PointAction
  /** The kinds of calls that lead to the point. */
  readonly kinds: readonly CallKind[]
  /** Whether it is armed before the client requests the price, or once its payment is signed. */
  readonly armedBefore: 'challenge' | 'payment'
  /** How the upstream behaves for the next call. */
  readonly upstream?: FaultRuleInput
  /** Whether no block is mined until the process has failed. */
  readonly chainPaused?: true
  /** Another point of the same process, at which the call fails once and thereby leads to this one. */
  readonly after?: string
  /** Whether several payments become ready together, so that they share a batch. */
  readonly together?: true
  /** What happens to a batch so that a process gets there. */
  readonly trouble?: 'reverts' | 'too_large'
  /** How payments must settle for a process to get there: through the settlement contract, or by the key directly. */
  readonly settles?: 'in_batches' | 'directly'
  /** Whether it belongs to the points that run by default. */
  readonly core: boolean
  /** Whether only the ledger's 30-second timer resumes the job, or leads a process to the point. */
  readonly slow: boolean
}

const ANY: readonly CallKind[] = ['chat', 'message', 'image', 'speech', 'transcription']
const UPLOAD: readonly CallKind[] = ['transcription']
const MEDIA: readonly CallKind[] = ['image', 'speech']

/** Several payments settle together through the contract. */
const BATCH = { settles: 'in_batches', together: true } as const
const DIRECT = { settles: 'directly' } as const

interface Circumstances extends Partial<Omit<FaultPoint, 'name'>> {}

function point(name: string, circumstances: Circumstances = {}): FaultPoint {
  return { name, action: 'kill', kinds: ANY, armedBefore: 'payment', core: false, slow: false, ...circumstances }
}

function core(name: string, circumstances: Circumstances = {}): FaultPoint {
  return point(name, { ...circumstances, core: true })
}

/** All points of a paid call at which a process is made to fail. */
export const FAULT_POINTS: readonly FaultPoint[] = [
  core('api.bindKey.after', { armedBefore: 'challenge' }),
  core('api.findKnownRequest.after'),
  point('api.verifier.verify.before'),
  core('api.verifier.verify.after'),
  point('api.uploads.put.before', { kinds: UPLOAD }),
  core('api.uploads.put.after', { kinds: UPLOAD }),
  core('api.acceptPayment.before'),
  core('api.acceptPayment.commit.before'),
  core('api.acceptPayment.commit.sent'),
  core('api.acceptPayment.after'),
  point('api.queue.enqueue.before'),
  core('api.queue.enqueue.after'),
  point('api.markEnqueued.after'),
  point('api.outcomes.wait.before'),
  core('api.outcomes.wait.after'),
  point('api.acceptPayment.before', { action: 'stop' }),
  point('api.acceptPayment.commit.sent', { action: 'throw' }),
  point('api.queue.enqueue.before', { action: 'throw' }),

  point('worker.leaseJob.before', { slow: true }),
  core('worker.leaseJob.after'),
  point('worker.openStagedUpload.after', { kinds: UPLOAD }),
  core('worker.uploads.open.after', { kinds: UPLOAD }),
  point('worker.deferJob.before', { kinds: UPLOAD, after: 'worker.uploads.open.before' }),
  core('worker.verifier.verify.after'),
  point('worker.startAttempt.before'),
  point('worker.startAttempt.before', { action: 'stop' }),
  point('worker.startAttempt.commit.before'),
  core('worker.startAttempt.commit.sent'),
  core('worker.startAttempt.after'),
  core('worker.upstream.written'),
  core('worker.upstream.answered'),
  core('worker.upstream.answered', { action: 'stop' }),
  core('worker.provider.after'),
  // The call takes longer than a third of the lease, after which it is renewed.
  point('worker.renewLeases.after', { upstream: { fault: 'none', delayMs: (LEASE_SECONDS * 1000) / 2 } }),
  point('worker.media.put.before', { kinds: MEDIA }),
  point('worker.media.put.before', { kinds: MEDIA, action: 'throw' }),
  core('worker.media.put.after', { kinds: MEDIA }),
  core('worker.sealResult.before'),
  core('worker.sealResult.before', { action: 'stop' }),
  point('worker.sealResult.commit.before'),
  core('worker.sealResult.commit.sent'),
  core('worker.sealResult.commit.sent', { action: 'throw' }),
  core('worker.sealResult.after'),
  point('worker.failJob.before', { upstream: { fault: 'status', status: 400 } }),
  core('worker.failJob.commit.sent', { upstream: { fault: 'status', status: 400 } }),

  core('worker.settler.prepare.after'),
  point('worker.recordSettlement.before', DIRECT),
  point('worker.recordSettlement.before', { action: 'stop', ...DIRECT }),
  core('worker.settler.sign.after', DIRECT),
  core('worker.recordSettlement.commit.before', DIRECT),
  core('worker.recordSettlement.commit.sent', DIRECT),
  point('worker.recordSettlement.commit.sent', { action: 'throw', ...DIRECT }),
  core('worker.recordSettlement.after', DIRECT),
  core('worker.recordBatch.before', BATCH),
  point('worker.recordBatch.before', { action: 'stop', ...BATCH }),
  core('worker.settler.signBatch.after', BATCH),
  core('worker.recordBatch.commit.before', BATCH),
  core('worker.recordBatch.commit.sent', BATCH),
  core('worker.recordBatch.commit.sent', { action: 'throw', ...BATCH }),
  // Stored, and not sent.
  core('worker.recordBatch.after', BATCH),
  core('worker.recordBatch.after', { action: 'stop', ...BATCH }),
  core('worker.renewBatch.before', { trouble: 'reverts', ...BATCH }),
  core('worker.renewBatch.commit.before', { trouble: 'reverts', ...BATCH }),
  core('worker.renewBatch.commit.sent', { trouble: 'reverts', ...BATCH }),
  core('worker.renewBatch.commit.sent', { action: 'throw', trouble: 'reverts', ...BATCH }),
  core('worker.renewBatch.after', { trouble: 'reverts', ...BATCH }),
  core('worker.abandonBatch.before', { trouble: 'too_large', ...BATCH }),
  core('worker.abandonBatch.after', { trouble: 'too_large', ...BATCH }),
  core('worker.settler.broadcast.before', { together: true }),
  core('worker.settler.broadcast.before', { action: 'stop' }),
  core('worker.rpc.eth_sendRawTransaction.written', { together: true }),
  core('worker.rpc.eth_sendRawTransaction.answered', { together: true }),
  point('worker.rpc.eth_sendRawTransaction.answered', { action: 'throw' }),
  point('worker.settler.broadcast.after'),
  core('worker.settler.confirm.after', { together: true }),
  core('worker.completeJob.before', { together: true }),
  core('worker.completeJob.before', { action: 'stop', together: true }),
  point('worker.completeJob.commit.before'),
  core('worker.completeJob.commit.sent', { together: true }),
  point('worker.completeJob.commit.sent', { action: 'throw' }),
  core('worker.completeJob.after', { together: true }),

  core('worker.leaseNonceQueue.after'),
  // A process that failed with the lease of a key's nonce queue blocks it until the lease expires.
  point('worker.readNonceQueue.after', { slow: true }),
  point('worker.releaseNonceQueue.before', { slow: true }),
  point('worker.findUnfinalBlocks.after'),
  core('worker.addReplacement.before', { chainPaused: true, together: true }),
  core('worker.addReplacement.after', { chainPaused: true, together: true }),

  point('worker.takeDueJobs.after'),
  point('worker.eraseExpiredUploads.after', { kinds: UPLOAD }),
  point('worker.uploads.delete.before', { kinds: UPLOAD }),
  core('worker.uploads.delete.after', { kinds: UPLOAD }),
  point('worker.markUploadsDeleted.after', { kinds: UPLOAD }),
]

/** Returns the name of a row: its point, and its action unless that is a kill. */
export function rowName({ name, action }: FaultPoint): string {
  return action === 'kill' ? name : `${name} (${action})`
}

/** Returns one kill for each core port call: between a commit and its answer where there is a commit. */
function quickPoints(all: readonly FaultPoint[]): readonly FaultPoint[] {
  const byCall = new Map<string, FaultPoint>()
  for (const one of all) {
    const call = one.name.replace(/(\.commit)?\.[a-z]+$/, '')
    const isBetter = !byCall.has(call) || one.name.endsWith('.commit.sent')
    if (one.core && one.action === 'kill' && isBetter) byCall.set(call, one)
  }
  return [...byCall.values()]
}

/**
 * Returns the rows of `selection`: `quick`, `core`, `all`, or comma-separated names; a point's name selects all its
 * actions, and `batches` those of batches.
 */
export function selectPoints(
  selection: string,
  settles: 'in_batches' | 'directly' = 'in_batches',
): readonly FaultPoint[] {
  const all = FAULT_POINTS.filter((one) => one.settles === undefined || one.settles === settles)
  if (selection === 'all') return all
  if (selection === 'quick') return quickPoints(all)
  if (selection === 'core') return all.filter((one) => one.core)
  if (selection === 'batches') return all.filter((one) => one.together)
  const found = selection.split(',').flatMap((name) => {
    const rows = all.filter((one) => one.name === name || rowName(one) === name)
    if (rows.length === 0) throw new Error(`unknown point: ${name}`)
    return rows
  })
  return [...new Set(found)]
}
