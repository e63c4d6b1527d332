import { readFile } from 'node:fs/promises'
import pLimit from 'p-limit'
import { sha256Hex } from '#shared/digests/canonical-json.ts'
import { callRpc } from '../../../infra/sandbox/chain/json-rpc.ts'
import type { UpstreamCall } from '../../../infra/sandbox/upstream/call-log.ts'
import { createChainReader } from '../../support/chain/devnet.ts'
import type { CallerAnswer, CallRecord, Ledgers, Replay, StoredObject, UpstreamLedgerCall } from './ledgers.ts'
import { readBatches } from './read-batches.ts'
import { readDatabase } from './read-database.ts'
import type { ReadObjects } from './read-objects.ts'

/** Where the five ledgers are. None may be behind a fault proxy. */
export interface LedgerSources {
  readonly rpcUrl: string
  readonly payTo: `0x${string}`
  /** Recipients that replace it while calls go on. */
  readonly furtherRecipients?: readonly `0x${string}`[]
  /** The contract that settles several payments in one transaction, where there is one. */
  readonly settlementContract?: string | null | undefined
  /** Addresses of the settlement keys. */
  readonly settlementAddresses: readonly string[]
  readonly databaseUrl: string
  /** When the chain was reorganized, in milliseconds since 1970. */
  readonly reorganizedAt: readonly number[]
  /** The upstream's call log, as JSON lines. */
  readonly upstreamCallLog: string
  readonly readObjects: ReadObjects
  /** Runs of bytes from clients' audio. */
  readonly canaries: readonly Buffer[]
  readonly calls: readonly CallRecord[]
  /** The calls to replay. */
  readonly callsToReplay: readonly CallRecord[]
  replay(call: CallRecord): Promise<CallerAnswer | null>
}

/** Concurrent replays. */
const REPLAYS_AT_ONCE = 8

/** Reads the five ledgers of an idle system. Replays come first: they must not change what is read afterwards. */
export async function collect(sources: LedgerSources): Promise<Ledgers> {
  const limit = pLimit(REPLAYS_AT_ONCE)
  const replays = await Promise.all(sources.callsToReplay.map((call) => limit(() => replayOnce(sources, call))))
  const database = await readDatabase(sources.databaseUrl)
  const [chain, upstream, objects] = await Promise.all([
    readChain(sources, new Set(database.settlements.flatMap(({ hashes }) => hashes))),
    readUpstreamCalls(sources.upstreamCallLog),
    describeObjects(sources),
  ])
  return { chain, upstream, database, objects, clients: { calls: sources.calls, replays } }
}

async function replayOnce(sources: LedgerSources, call: CallRecord): Promise<Replay> {
  const answer = await sources.replay(call).catch(() => null)
  const urls = answer?.status === 200 ? (answer.bodyText?.match(/https?:\/\/[^"\s]+\/media\/[\w-]+/g) ?? []) : []
  const media = await Promise.all(urls.map(async (url) => ({ url, sha256: await fetchDigest(url).catch(() => null) })))
  return { callId: call.callId, answer, media }
}

async function fetchDigest(url: string): Promise<string | null> {
  const answer = await fetch(url)
  const bytes = new Uint8Array(await answer.arrayBuffer())
  return answer.status === 200 ? sha256Hex(bytes) : null
}

async function readChain(
  { rpcUrl, payTo, furtherRecipients = [], settlementAddresses, settlementContract, reorganizedAt }: LedgerSources,
  signed: ReadonlySet<string>,
): Promise<Ledgers['chain']> {
  const reader = createChainReader(rpcUrl)
  const count = async (address: string, block: string) =>
    Number(await callRpc<string>(rpcUrl, 'eth_getTransactionCount', [address, block]))
  const recipients = [payTo, ...furtherRecipients]
  const [transfers, balances, keys] = await Promise.all([
    Promise.all(recipients.map((recipient) => reader.transfersTo(recipient))),
    Promise.all(recipients.map((recipient) => reader.usdcBalance(recipient))),
    Promise.all(
      settlementAddresses.map(async (address) => ({
        address: address.toLowerCase(),
        minedCount: await count(address, 'latest'),
        pendingCount: await count(address, 'pending'),
      })),
    ),
  ])
  const mined = transfers.flat().map(({ transactionHash }) => transactionHash.toLowerCase())
  const read = settlementContract
    ? await readBatches(reader.client, settlementContract, recipients, new Set([...signed, ...mined]))
    : new Map<string, never>()
  const places = new Map<string, number>()
  return {
    batches: [...read.values()].flatMap(({ batch }) => batch ?? []),
    recipientBalance: balances.reduce((sum, balance) => sum + balance, 0n),
    keys,
    reorganizedAt,
    transfers: transfers.flat().map(({ from, valueAtomic, transactionHash: mixedCase }) => {
      const transactionHash = mixedCase.toLowerCase()
      // The node lists the transfers of a transaction in their order.
      const place = places.get(transactionHash) ?? 0
      places.set(transactionHash, place + 1)
      const nonce = read.get(transactionHash)?.noncesOfTransfers[place] ?? null
      return { transactionHash, from: from.toLowerCase(), amount: valueAtomic, nonce }
    }),
  }
}

/**
 * Reads the upstream's log, in which the last line of each call states its outcome. A restart of the simulator resets
 * the numbers, so arrival is part of the id.
 */
async function readUpstreamCalls(path: string): Promise<readonly UpstreamLedgerCall[]> {
  const text = await readFile(path, 'utf8').catch(() => '')
  const calls = new Map<string, UpstreamLedgerCall>()
  for (const line of text.split('\n')) {
    // A killed simulator may have left an incomplete line.
    if (!line.endsWith('}')) continue
    const { call, arrivedAt, route, started, status, audioSha256, fields } = JSON.parse(line) as UpstreamCall
    const id = `${arrivedAt} #${call}`
    const marker = audioSha256 ?? /call-[0-9a-f-]{36}/.exec(JSON.stringify(fields))?.[0] ?? null
    calls.set(id, { id, arrivedAt: Date.parse(arrivedAt), route, started, status, marker })
  }
  return [...calls.values()]
}

async function describeObjects({ readObjects, canaries }: LedgerSources): Promise<readonly StoredObject[]> {
  return (await readObjects()).map(({ key, bytes, storedAtMs }) => ({
    key,
    sha256: sha256Hex(bytes),
    ageMs: Date.now() - storedAtMs,
    holdsPlaintext: canaries.some((canary) => bytes.includes(canary)),
  }))
}
