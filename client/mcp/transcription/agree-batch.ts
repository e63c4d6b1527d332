import { hash } from 'node:crypto'
import type { UploadWork } from '../../batch/plan/price-uploads.ts'
import { exactJobsOf } from '../../batch/plan/work.ts'
import type { BatchPlan } from '../../batch/types.ts'
import { parseUsdc } from '../../budget/usdc.ts'
import type { Farebox } from '../../farebox.ts'
import { uncharged } from '../../wire/farebox-error.ts'
import { canonicalJson } from '../../wire/json.ts'
import { agree, toolCallKey } from '../call/agree.ts'
import type { Exchange, McpSession } from '../tool.ts'

const TOOL = 'transcribe'

/**
 * Throws unless what a batch still has to pay for fits into the limits together and, if need be, a person agrees. Returns
 * what to check before a payment is sent.
 */
export async function agreeToBatch(
  session: Pick<McpSession, 'limits'>,
  exchange: Pick<Exchange, 'ask'>,
  farebox: Farebox,
  plan: BatchPlan,
): Promise<() => void> {
  const unpaid = unpaidUploads(farebox, plan)
  if (unpaid.length === 0) return () => undefined
  const maximum = unpaid.reduce((sum, { price }) => sum + price, 0n)
  const minutes = Math.ceil(unpaid.reduce((sum, { upload }) => sum + upload.durationMs, 0) / 60_000)
  const { toDo } = plan.totals
  const summary = `transcribe ${toDo} ${toDo === 1 ? 'recording' : 'recordings'} of ${minutes} min in all`
  // The agreement is to these uploads: with another one among them it is another question.
  const key = digest(unpaid.map((upload) => upload.key).sort())
  return await agree(session, farebox, exchange, { tool: TOOL, key, maximum, summary })
}

/** What a payment was signed for earlier was agreed to then, at its price. */
function unpaidUploads(farebox: Farebox, plan: BatchPlan): readonly UploadWork[] {
  const byKey = new Map<string, UploadWork>()
  for (const job of exactJobsOf(plan))
    for (const upload of job.kind === 'pack' ? [job.upload] : job.uploads) {
      const { maximum } = farebox.knownCall(upload.key) ?? { maximum: null }
      if (maximum === null || parseUsdc(maximum) < upload.price) byKey.set(upload.key, upload)
    }
  return [...byKey.values()]
}

/**
 * Throws `request_id_conflict` if the request id stood for other recordings or options before. The recordings name their
 * payments themselves, so the id decides about nothing else.
 */
export async function requireSameCall(
  { nonce }: Pick<McpSession, 'nonce'>,
  farebox: Farebox,
  plan: BatchPlan,
  call: { readonly requestId: string | undefined; readonly options: unknown },
): Promise<void> {
  const { requestId, options } = call
  if (requestId === undefined) return
  const { secret } = await farebox.keySecret()
  const key = toolCallKey(secret, nonce, { tool: TOOL, requestId, identity: null })
  const contents = new Set(plan.files.map(({ sha256, path }) => sha256 ?? path))
  const identity = digest({ options, contents: [...contents].sort() })
  const known = farebox.knownCall(key)
  if (known === null) farebox.nameCall(key, identity, `mcp ${TOOL}`)
  else if (known.identity !== identity)
    throw uncharged(
      'request_id_conflict',
      'This request_id was used for other recordings or options before.',
      'Repeat the call with the same recordings and options, or use another request_id.',
    )
}

function digest(value: unknown): string {
  return hash('sha256', canonicalJson(value), 'base64url')
}
