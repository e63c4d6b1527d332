import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { tokenPieces } from './count-tokens.ts'

/** A part of a prompt, in the order in which the vendor reads it: tools, instructions, conversation. */
export interface PromptBlock {
  /** The speaker or the kind of the block; equal texts of others are no equal prefix. */
  readonly label: string
  readonly text: string
  /** Whether the caller asks to cache the prompt up to the end of this block. */
  readonly isBreakpoint: boolean
}

/**
 * What a model caches, from a minimum of tokens on: with a step, whole steps by itself, whose writes cost nothing;
 * otherwise up to the breakpoints that the caller set.
 */
export interface CacheRule {
  readonly minimum: number
  readonly step?: number
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

/** Some megabytes. */
const MAXIMUM_PREFIXES = 100_000

/**
 * How many blocks before a breakpoint are compared with what was written, its own included
 * (platform.claude.com/docs/en/build-with-claude/prompt-caching).
 */
const LOOKBACK_BLOCKS = 20

export type PromptCache = ReturnType<typeof createPromptCache>

/** Creates the prompt cache of a simulated vendor, which its models share and none reads of another. */
export function createPromptCache() {
  const known = new LRUCache<string, true>({ max: MAXIMUM_PREFIXES, ttl: LIFETIME_MS, updateAgeOnGet: true })
  const has = ({ digest }: Prefix) => known.has(digest)
  return {
    read(model: string, blocks: readonly PromptBlock[], { minimum, step }: CacheRule): CachedTokens {
      const prefixes = prefixesOf(model, blocks, step)
      const breakpoints = blocks.flatMap(({ isBreakpoint }, index) => (isBreakpoint ? [index] : []))
      const found =
        step === undefined
          ? breakpoints.flatMap(
              (at) => prefixes.slice(Math.max(0, at + 1 - LOOKBACK_BLOCKS), at + 1).findLast(has) ?? [],
            )
          : prefixes.filter(({ tokens }) => tokens >= minimum).filter(has)
      const cached = Math.max(0, ...found.map(({ tokens }) => tokens))
      const asked = step === undefined ? breakpoints.flatMap((at) => prefixes[at] ?? []) : prefixes
      const marked = asked.filter(({ tokens }) => tokens >= minimum)
      for (const { digest } of [...found, ...marked]) known.set(digest, true)
      return { cached, written: step === undefined ? Math.max(0, (marked.at(-1)?.tokens ?? 0) - cached) : 0 }
    },
  }
}

/** Returns the prefixes of whole steps, or up to the end of each block. A block counts one token more than its text. */
function prefixesOf(model: string, blocks: readonly PromptBlock[], step: number | undefined): Prefix[] {
  const hash = createHash('sha256').update(model)
  const prefixes: Prefix[] = []
  let tokens = 0
  for (const { label, text } of blocks) {
    for (const piece of [`\0${label}\0`, ...tokenPieces(text)]) {
      hash.update(piece)
      tokens += 1
      if (step !== undefined && tokens % step === 0) prefixes.push({ digest: hash.copy().digest('base64'), tokens })
    }
    if (step === undefined) prefixes.push({ digest: hash.copy().digest('base64'), tokens })
  }
  return prefixes
}
