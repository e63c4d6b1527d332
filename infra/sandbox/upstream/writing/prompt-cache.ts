import { createHash, type Hash } from 'node:crypto'
import { tokenPieces } from './count-tokens.ts'

/** A part of a prompt, in the order in which the vendor reads it: tools, instructions, conversation. */
export interface PromptBlock {
  /** Who speaks, or the kind of the block; equal texts of others are no equal prefix. */
  readonly label: string
  readonly text: string
  /** Whether the caller asks to cache the prompt up to the end of this block. */
  readonly isBreakpoint?: boolean
}

/** The part of the input that was read from the cache, and that was written to it and is billed for that. */
export interface CachedTokens {
  readonly cached: number
  readonly written: number
}

interface Prefix {
  readonly digest: string
  readonly tokens: number
}

/** Unused prefixes are kept for five minutes, the shortest time that the vendors document. */
const LIFETIME_MS = 5 * 60_000

/** Some megabytes; beyond it the prefix that was unused for the longest time is forgotten. */
const MAXIMUM_PREFIXES = 100_000

/**
 * How many blocks before a breakpoint are compared with what was written, its own included
 * (platform.claude.com/docs/en/build-with-claude/prompt-caching).
 */
const LOOKBACK_BLOCKS = 20

export type PromptCache = ReturnType<typeof createPromptCache>

/** Creates the prompt cache of a simulated vendor, which its models share and none reads of another. */
export function createPromptCache(now: () => number = Date.now) {
  /** When each prefix was last used, the oldest first. */
  const usedAt = new Map<string, number>()
  const has = ({ digest }: Prefix) => (usedAt.get(digest) ?? Number.NEGATIVE_INFINITY) > now() - LIFETIME_MS
  const remember = ({ digest }: Prefix) => {
    usedAt.delete(digest)
    usedAt.set(digest, now())
    const [oldest] = usedAt.keys()
    if (usedAt.size > MAXIMUM_PREFIXES && oldest !== undefined) usedAt.delete(oldest)
  }
  return {
    /** Reads and writes by itself: whole steps of tokens from a minimum on. Writes cost nothing. */
    readSteps(model: string, blocks: readonly PromptBlock[], { minimum, step }: { minimum: number; step: number }) {
      const prefixes = stepsOf(model, blocks, step).filter(({ tokens }) => tokens >= minimum)
      const cached = prefixes.findLast(has)?.tokens ?? 0
      for (const prefix of prefixes) remember(prefix)
      return cached
    },
    /** Reads and writes up to the breakpoints that the caller set, from a minimum on. */
    readBreakpoints(model: string, blocks: readonly PromptBlock[], { minimum }: { minimum: number }): CachedTokens {
      const ends = endsOf(model, blocks)
      const breakpoints = blocks.flatMap(({ isBreakpoint }, index) => (isBreakpoint === true ? [index] : []))
      const found = breakpoints.flatMap(
        (at) => ends.slice(Math.max(0, at + 1 - LOOKBACK_BLOCKS), at + 1).findLast(has) ?? [],
      )
      const cached = Math.max(0, ...found.map(({ tokens }) => tokens))
      const marked = breakpoints.flatMap((at) => ends[at] ?? []).filter(({ tokens }) => tokens >= minimum)
      for (const prefix of [...found, ...marked]) remember(prefix)
      return { cached, written: Math.max(0, (marked.at(-1)?.tokens ?? 0) - cached) }
    },
  }
}

/** Returns the prefixes of whole steps. A block counts one token more than its text. */
function stepsOf(model: string, blocks: readonly PromptBlock[], step: number): Prefix[] {
  const hash = createHash('sha256').update(model)
  const prefixes: Prefix[] = []
  let tokens = 0
  for (const { label, text } of blocks)
    for (const piece of [`\0${label}\0`, ...tokenPieces(text)]) {
      hash.update(piece)
      tokens += 1
      if (tokens % step === 0) prefixes.push({ digest: digestOf(hash), tokens })
    }
  return prefixes
}

/** Returns the prefix up to the end of each block. */
function endsOf(model: string, blocks: readonly PromptBlock[]): Prefix[] {
  const hash = createHash('sha256').update(model)
  let tokens = 0
  return blocks.map(({ label, text }) => {
    hash.update(`\0${label}\0`).update(text)
    tokens += tokenPieces(text).length + 1
    return { digest: digestOf(hash), tokens }
  })
}

function digestOf(hash: Hash): string {
  return hash.copy().digest('base64')
}

/** Describes an image for a prefix, which is another one with another image. */
export function imageBlockText(base64: string): string {
  return createHash('sha256').update(base64).digest('hex').slice(0, 8)
}
