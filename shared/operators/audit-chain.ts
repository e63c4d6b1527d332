import { sha256Hex } from '#shared/digests/canonical-json.ts'

/** The end of the chain: how many actions there are, and the hash of the last one. */
export interface AuditHead {
  readonly position: bigint
  readonly hash: string
}

/** An action with its place in the chain, and its content as the texts that are hashed. */
export interface ChainedAction extends AuditHead {
  readonly parts: readonly (string | null)[]
}

/** Before the first action. */
export const BEGINNING: AuditHead = { position: 0n, hash: '0'.repeat(64) }

/** Returns the hash of an action that follows another one; `operator_action_hash` of the ledger computes the same. */
function hashOfAction(before: string, { position, parts }: Omit<ChainedAction, 'hash'>): string {
  const all = [before, position.toString(), ...parts]
  return sha256Hex(all.map((part) => (part === null ? '-' : `${Buffer.byteLength(part)}:${part}`)).join(','))
}

/**
 * Checks a chain, whose actions are given by position. `written` is the head in the database; `remembered` one that was
 * written down elsewhere, which also shows a chain that was computed anew. Returns what is wrong, one sentence each.
 */
export async function findBreaks(
  actions: AsyncIterable<ChainedAction>,
  written: AuditHead,
  remembered: AuditHead | null,
): Promise<readonly string[]> {
  const breaks: string[] = []
  let last = BEGINNING
  let hashThen = remembered?.position === 0n ? BEGINNING.hash : null
  for await (const action of actions) {
    if (action.position !== last.position + 1n) breaks.push(missing(last.position + 1n, action.position - 1n))
    // What follows a gap follows from nothing that is known.
    else if (hashOfAction(last.hash, action) !== action.hash)
      breaks.push(`action ${action.position} is not the one that was recorded after action ${last.position}`)
    if (action.position === remembered?.position) hashThen = action.hash
    last = action
  }
  if (last.position < written.position) breaks.push(missing(last.position + 1n, written.position))
  else if (last.position > written.position || last.hash !== written.hash)
    breaks.push(`action ${last.position} is not the last one that was recorded`)
  if (remembered && remembered.hash !== hashThen)
    breaks.push(`action ${remembered.position} had the hash ${remembered.hash}, and has ${hashThen ?? 'none'}`)
  return breaks
}

function missing(first: bigint, last: bigint): string {
  return first === last ? `action ${first} is missing` : `actions ${first} to ${last} are missing`
}
