import { z } from 'zod'
import { StartFailure } from './start-process.ts'

/** The most seconds that a setting may wait: Node's timers end at once when they are longer than 24 days. */
export const LONGEST_WAIT_SECONDS = 86_400

/** Returns whether a value is one of the samples of the example files, which an operator must replace. */
export function isPublishedSample(value: string): boolean {
  return /\breplace-with-/i.test(value)
}

/**
 * Parses the environment. Throws a failure that names every invalid setting and every setting that still has the
 * published sample; it quotes no value.
 */
export function parseSettings<Schema extends z.ZodType>(
  schema: Schema,
  names: readonly string[],
  environment: Readonly<Record<string, string | undefined>>,
): z.infer<Schema> {
  const samples = names.filter((name) => isPublishedSample(environment[name] ?? ''))
  const parsed = schema.safeParse(environment)
  if (parsed.success && samples.length === 0) return parsed.data
  const issues = (parsed.error?.issues ?? []).filter(({ path }) => !samples.includes(String(path[0])))
  const unreplaced = samples.map((name) => ({
    path: [name],
    message: 'is the sample of .env.example, which everybody can read; replace it with a value of your own',
  }))
  throw new StartFailure(`invalid configuration:\n${z.prettifyError({ issues: [...unreplaced, ...issues] })}`)
}
