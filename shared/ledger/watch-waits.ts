import pg from 'pg'
import { parseQueueUrl } from '#shared/jobs/queue-url.ts'
import { rarely } from '#shared/runtime/rarely.ts'

/** How long a connection or a statement may take before it is asked what it waits for, and then again. */
const PATIENCE_MS = 2000
const ANSWER_TIMEOUT_MS = 2000
const SHOWN_HOLDERS = 3

/** SQLSTATEs of a statement that waited too long: `lock_timeout` and `statement_timeout`. */
const WAITED_TOO_LONG: ReadonlySet<unknown> = new Set(['55P03', '57014'])

export interface WatchedWaits {
  readonly connectionString: string
  /** Receives a clause that names what is waited for, since when, and who holds it: `waiting since … for …`. */
  readonly onWait: (clause: string) => void
}

/** Watches clients for waits that PostgreSQL says nothing about: for a lock, and for a server that does not answer. */
export interface WaitWatch {
  /** Watches a client from its creation until it is connected. */
  addConnecting(client: pg.Client): void
  /** Watches each client of a pool while it is in use. */
  addPool(pool: pg.Pool): void
  /** Returns the error itself or, when it ended a wait, one that says for what. */
  describe(error: unknown): unknown
}

/** The end of a statement that waited, with its SQLSTATE. */
class GaveUp extends Error {
  readonly code: string

  constructor(clause: string, code: string, cause: unknown) {
    super(`gave up ${clause}`, { cause })
    this.code = code
  }
}

type Waits = ReadonlyMap<pg.Client, number>

/**
 * Creates a watch over the clients of one database. It costs nothing while nobody waits: what a client waits for is asked
 * over another connection, and only once it has been in use for seconds.
 */
export function createWaitWatch({ connectionString, onWait }: WatchedWaits): WaitWatch {
  const [connecting, inUse] = [new Map<pg.Client, number>(), new Map<pg.Client, number>()]
  let isTimed = false
  let said: string | null = null
  const sayRarely = rarely(onWait, (clause) => clause)
  const begin = (waits: Map<pg.Client, number>, client: pg.Client) => {
    waits.set(client, Date.now())
    schedule(PATIENCE_MS)
  }
  const schedule = (delayMs: number) => {
    if (isTimed) return
    isTimed = true
    setTimeout(() => void look().catch(() => undefined), delayMs).unref()
  }
  const look = async () => {
    const [since, now] = [oldestOf(connecting, inUse), Date.now()]
    const isLong = now - since >= PATIENCE_MS
    try {
      if (isLong) say(await explain(connectionString, connecting, inUse))
    } finally {
      isTimed = false
      if (connecting.size + inUse.size > 0) schedule(isLong ? PATIENCE_MS : since + PATIENCE_MS - now)
    }
  }
  const say = (clause: string | null) => {
    if (clause === null) return
    said = clause
    sayRarely(clause)
  }
  return {
    addConnecting: (client) => {
      begin(connecting, client)
      for (const event of ['connect', 'end'] as const) client.once(event, () => connecting.delete(client))
    },
    addPool: (pool) => {
      pool.on('acquire', (client) => begin(inUse, client))
      pool.on('release', (_, client) => inUse.delete(client))
      pool.on('remove', (client) => inUse.delete(client))
    },
    describe: (error) => {
      const code = codeOf(error)
      return said !== null && code !== null && WAITED_TOO_LONG.has(code) ? new GaveUp(said, code, error) : error
    },
  }
}

/** Returns the SQLSTATE of an error, or of the one that caused it. */
function codeOf(error: unknown): string | null {
  if (!(error instanceof Error)) return null
  return 'code' in error && typeof error.code === 'string' ? error.code : codeOf(error.cause)
}

function oldestOf(...waits: readonly Waits[]): number {
  return Math.min(...waits.flatMap((clients) => [...clients.values()]))
}

async function explain(connectionString: string, connecting: Waits, inUse: Waits): Promise<string | null> {
  const longest = Date.now() - PATIENCE_MS
  const unanswered = oldestOf(connecting)
  if (unanswered <= longest) return noAnswer(connectionString, unanswered)
  const since = oldestOf(inUse)
  const pids = [...inUse].flatMap(([client, from]) => (from <= longest ? pidOf(client) : []))
  try {
    const { waited, holders } = await readLocks(connectionString, pids)
    if (waited.length === 0) return null
    const shown = holders.slice(0, SHOWN_HOLDERS).map(nameOf)
    return `waiting since ${timeOf(since)} for ${waited.join(', ')}, held by ${shown.join(', ') || 'a session that just ended'}`
  } catch {
    return noAnswer(connectionString, since)
  }
}

function noAnswer(connectionString: string, since: number): string {
  return `waiting since ${timeOf(since)} for the database at ${parseQueueUrl(connectionString).shown}, which does not answer`
}

function pidOf(client: pg.Client): readonly number[] {
  const { processID } = client as { processID?: number | null }
  return typeof processID === 'number' ? [processID] : []
}

interface Holder {
  readonly pid: number
  readonly program: string | null
  /** Hidden from roles that may not read other roles' statistics. */
  readonly began: Date | null
}

function nameOf({ pid, program, began }: Holder): string {
  const name = program ? `"${program}"` : 'a session'
  return `${name} (pid ${pid}${began === null ? '' : `, in a transaction since ${timeOf(began.getTime())}`})`
}

function timeOf(time: number): string {
  return new Date(time).toISOString()
}

interface Locks {
  readonly waited: readonly string[]
  /** The sessions at the end of the queue, which themselves wait for no lock. */
  readonly holders: readonly Holder[]
}

async function readLocks(connectionString: string, pids: readonly number[]): Promise<Locks> {
  const client = new pg.Client({
    connectionString,
    connectionTimeoutMillis: ANSWER_TIMEOUT_MS,
    query_timeout: ANSWER_TIMEOUT_MS,
    application_name: 'farebox waits',
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rows: waited } = await client.query<{ name: string }>(
      `SELECT DISTINCT coalesce('the table ' || relation::regclass,
         CASE locktype WHEN 'virtualxid' THEN 'the end of older transactions' ELSE 'a lock (' || locktype || ')' END) AS name
       FROM pg_locks WHERE NOT granted AND pid = ANY($1) ORDER BY name`,
      [pids],
    )
    const { rows: holders } = await client.query<Holder>(
      `WITH RECURSIVE ahead AS (
         SELECT unnest(pg_blocking_pids(waiting)) AS pid FROM unnest($1::integer[]) AS waiting
         UNION SELECT unnest(pg_blocking_pids(ahead.pid)) FROM ahead)
       SELECT ahead.pid, application_name AS program, xact_start AS began
       FROM ahead LEFT JOIN pg_stat_activity AS session ON session.pid = ahead.pid
       WHERE cardinality(pg_blocking_pids(ahead.pid)) = 0 ORDER BY xact_start, ahead.pid`,
      [pids],
    )
    return { waited: waited.map(({ name }) => name), holders }
  } finally {
    await client.end().catch(() => undefined)
  }
}
