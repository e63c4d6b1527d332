import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { openJournal } from '../../../client/journal/open-journal.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { startFareboxCommand } from '../../support/processes/farebox-command.ts'
import { startStandaloneSandbox, type TestSandbox, WITHOUT_BUDGETS } from '../../support/processes/test-sandbox.ts'
import { untilNoneLeft } from '../stack/until-reached.ts'
import { checkBatch } from './check-batch.ts'
import { type Clip, writeClips } from './clips.ts'
import { drawKills, drawServiceKills } from './draw-kills.ts'
import { killService } from './kill-service.ts'
import { countTranscripts, loseHalf, readOutputs } from './outputs.ts'
import { type Run, runWithKills } from './run-with-kills.ts'

/** What is lost between two runs, or killed during them. */
export const VARIANTS = {
  kept: 'nothing but the process is lost',
  deleted: 'the journal is deleted before each rerun',
  forgotten: 'the journal and about half of the transcripts are deleted before each rerun',
  service: 'API and worker are killed as well, and restarted',
} as const
export type Variant = keyof typeof VARIANTS

export interface ClientCampaignOptions {
  readonly seed: number
  readonly clips: number
  readonly kills: number
  readonly variant: Variant
  readonly concurrency: number
  /** The vendor's time for an answer. */
  readonly upstreamDelayMs: number
  /** Replaces the derived keys by random ones, which the checker must report. */
  readonly withRandomKeys?: boolean
  readonly onProgress?: (line: string) => void
}

export interface ClientCampaignReport {
  readonly runs: readonly Run[]
  /** How often a process of the service was killed. */
  readonly serviceKills: number
  readonly transcripts: number
  readonly transfers: number
  readonly chargedAtomic: bigint
  readonly priceAtomic: bigint
  readonly violations: readonly string[]
}

const CLIP_MS = 22_000
const MODEL = 'speechvendor/scribe-v2'
const PAYER_FUNDS_ATOMIC = 1_000_000_000n
/** Short, since every job of a killed worker waits for it. */
const LEASE_SECONDS = '3'
const RANDOM_KEYS = fileURLToPath(new URL('./random-keys.ts', import.meta.url))

/**
 * Transcribes a folder with the command as a process that is killed at drawn moments and run again until it succeeds, and
 * compares transcripts, chain, the service's ledger and the client's journal.
 */
export async function runClientCampaign(options: ClientCampaignOptions): Promise<ClientCampaignReport> {
  const directory = await mkdtemp(join(tmpdir(), 'farebox-client-'))
  const sandbox = await startStandaloneSandbox({
    upstreamDelayMs: options.upstreamDelayMs,
    apiEnvironment: { ...WITHOUT_BUDGETS, REQUESTS_PER_MINUTE: '1000000', HOLD_SECONDS: '10' },
    workerEnvironment: { ...WITHOUT_BUDGETS, LEASE_SECONDS },
  })
  try {
    const { seed, clips: count, onProgress } = options
    const clips = await writeClips(join(directory, 'clips'), { count, seed, durationMs: CLIP_MS })
    onProgress?.(`${count} clips of ${CLIP_MS / 1000} s, ${options.kills} kills, seed ${seed}: ${options.variant}`)
    const payer = await createPayer(sandbox.info.rpcUrl, { usdcAtomic: PAYER_FUNDS_ATOMIC, approved: true })
    const place = { clips: join(directory, 'clips'), home: join(directory, 'home'), output: join(directory, 'output') }
    const { runs, serviceKills } = await runBatch(sandbox, payer, place, options)
    const report = await collect(sandbox, payer, place, { clips, runs, options })
    return { ...report, runs, serviceKills }
  } finally {
    await sandbox.stop()
    await rm(directory, { recursive: true, force: true })
  }
}

interface Place {
  readonly clips: string
  readonly home: string
  readonly output: string
}

async function runBatch(sandbox: TestSandbox, payer: Payer, place: Place, options: ClientCampaignOptions) {
  const { seed, clips, kills, variant, concurrency, withRandomKeys = false, onProgress } = options
  await mkdir(place.output)
  const args = ['transcribe', place.clips, '--out', place.output, '--format', 'txt']
  const settings = {
    baseUrl: sandbox.info.baseUrl,
    privateKey: payer.privateKey,
    home: place.home,
    ...(withRandomKeys ? { preload: RANDOM_KEYS } : {}),
  }
  const countFinished = () => countTranscripts(place.output)
  const ending = new AbortController()
  const serviceKilled =
    variant === 'service'
      ? killService(sandbox, drawServiceKills(seed, kills, clips), countFinished, ending.signal)
      : Promise.resolve(0)
  const runs = await runWithKills({
    kills: drawKills(seed, kills, clips),
    countFinished,
    start: () => startFareboxCommand([...args, '--concurrency', String(concurrency), '--yes', '--json'], settings),
    beforeRerun: async (run) => {
      if (variant === 'deleted' || variant === 'forgotten') await rm(place.home, { recursive: true, force: true })
      if (variant === 'forgotten') await loseHalf(place.output, seed + run)
    },
    onRun: (run) => onProgress?.(describeRun(run)),
  }).finally(() => ending.abort())
  return { runs, serviceKills: await serviceKilled }
}

function describeRun({ kill, end, finishedBefore, finishedAfter, errors }: Run): string {
  const moment = kill?.afterFinished === null ? 'early' : `at ${kill?.afterFinished}`
  const how = kill === null ? `exit ${end.code}` : `killed ${moment} + ${kill.delayMs} ms`
  const failure = end.code === 0 || end.signal !== null ? '' : `: ${errors.slice(-500)}`
  return `  ${finishedBefore} → ${finishedAfter} transcripts in ${(end.elapsedMs / 1000).toFixed(1)} s, ${how}${failure}`
}

async function collect(
  sandbox: TestSandbox,
  payer: Payer,
  place: Place,
  { clips, runs, options }: { clips: readonly Clip[]; runs: readonly Run[]; options: ClientCampaignOptions },
) {
  // Of runs that were killed, a client with other keys leaves calls behind.
  const stuck = await untilNoneLeft(() =>
    sandbox.sql<{ id: string }>(
      "SELECT id FROM jobs WHERE state IN ('accepted', 'generating', 'generated', 'settling') ORDER BY id",
    ),
  )
  const transfers = (await sandbox.chain.transfersTo(sandbox.info.payTo))
    .filter(({ from }) => from.toLowerCase() === payer.address)
    .map(({ valueAtomic }) => valueAtomic)
  const priceAtomic = await askPrice(sandbox, clips[0])
  const outputs = await readOutputs(place.output)
  const violations = checkBatch({
    clips,
    priceAtomic,
    ...outputs,
    transfers,
    spentAtomic: PAYER_FUNDS_ATOMIC - (await sandbox.chain.usdcBalance(payer.address)),
    receipts: await readReceipts(sandbox, payer),
    journaledAtomic: options.variant === 'kept' || options.variant === 'service' ? await readJournal(place.home) : null,
    exitCode: runs.at(-1)?.end.code ?? null,
  })
  return {
    transcripts: outputs.transcripts.size,
    transfers: transfers.length,
    chargedAtomic: transfers.reduce((sum, amount) => sum + amount, 0n),
    priceAtomic,
    violations: [...stuck.map(({ id }) => `the job ${id} never ended`), ...violations],
  }
}

/** Asks for the price without the client: by a description of the recording. All clips have the same duration. */
async function askPrice({ info }: TestSandbox, clip: Clip | undefined): Promise<bigint> {
  const audio = { sha256: clip?.sha256, bytes: clip?.bytes, duration_ms: CLIP_MS }
  const answer = await fetch(`${info.baseUrl}/v1/quotes`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ operation: 'createTranscription', request: { model: MODEL, audio } }),
  })
  if (!answer.ok) throw new Error(`the price: ${answer.status} ${await answer.text()}`)
  const { quoted_maximum_atomic } = (await answer.json()) as { quoted_maximum_atomic: string }
  return BigInt(quoted_maximum_atomic)
}

async function readReceipts(sandbox: TestSandbox, payer: Payer) {
  const rows = await sandbox.sql<{ receipt_id: string; heard: string | null }>(
    `SELECT receipt_id, result_body::jsonb->>'text' AS heard FROM jobs WHERE payer = $1 AND receipt_id IS NOT NULL`,
    [payer.address],
  )
  return rows.map(({ receipt_id, heard }) => ({ receiptId: receipt_id, heard }))
}

/** Returns what the client believes to have been charged. */
async function readJournal(home: string): Promise<bigint> {
  const journal = openJournal(home)
  const charged = [...journal.attempts.all()].reduce((sum, attempt) => sum + attempt.charged, 0n)
  await journal.close()
  return charged
}
