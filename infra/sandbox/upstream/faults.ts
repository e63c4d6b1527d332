import { z } from 'zod'

const positiveInteger = z.int().positive()

const rule = {
  /** Path that the rule is for; absent: every vendor route. */
  route: z.string().startsWith('/').optional(),
  /** How many calls it meets before the next rule is reached; `always` keeps it. */
  times: z.union([positiveInteger, z.literal('always')]).default(1),
  /** Waiting time after the request was read, before anything else happens. */
  delayMs: z.int().nonnegative().default(0),
}

/** One fault rule as sent to `PUT /_simulator/faults`. */
const faultRule = z.discriminatedUnion('fault', [
  /** The right answer; useful with `delayMs`, or to let calls pass before the next rule. */
  z.strictObject({ ...rule, fault: z.literal('none') }),
  /** This status and body in place of the answer. A status of 500 or more counts as started work. */
  z.strictObject({
    ...rule,
    fault: z.literal('status'),
    status: z.int().min(200).max(599),
    body: z.unknown().optional(),
    headers: z.record(z.string(), z.string()).default({}),
  }),
  /** Works and never answers. */
  z.strictObject({ ...rule, fault: z.literal('hang') }),
  /** Resets the connection when the headers have arrived. */
  z.strictObject({ ...rule, fault: z.literal('resetBeforeRead') }),
  /** Reads everything, works, then resets. */
  z.strictObject({ ...rule, fault: z.literal('resetAfterRead') }),
  /** Sends the headers and half of the body, then resets. */
  z.strictObject({ ...rule, fault: z.literal('resetMidBody') }),
  /** A complete HTTP answer whose JSON stops half-way. */
  z.strictObject({ ...rule, fault: z.literal('truncatedJson') }),
  /** The right answer with nothing in it. */
  z.strictObject({ ...rule, fault: z.literal('emptyText') }),
  /** An answer padded to this many bytes. */
  z.strictObject({ ...rule, fault: z.literal('hugeBody'), bytes: positiveInteger.default(64 * 1024 * 1024) }),
  /** The right answer in `pieces` pieces, `everyMs` apart. */
  z.strictObject({
    ...rule,
    fault: z.literal('slowBody'),
    pieces: positiveInteger.default(20),
    everyMs: positiveInteger.default(500),
  }),
])

export type FaultRule = z.infer<typeof faultRule>
export type FaultRuleInput = z.input<typeof faultRule>

export interface FaultQueue {
  readonly rules: readonly FaultRule[]
  /** Replaces all rules. Throws a ZodError when one is not valid. */
  replace(rules: unknown): void
  /** The first rule for this route, used up once; undefined when no rule is left for it. */
  take(route: string): FaultRule | undefined
}

/** Rules are consumed in the order of the calls' arrival, so a test knows which call meets which fault. */
export function createFaultQueue(): FaultQueue {
  let rules: FaultRule[] = []
  return {
    get rules() {
      return rules
    },
    replace(next) {
      rules = z.array(faultRule).parse(next)
    },
    take(route) {
      const index = rules.findIndex((candidate) => candidate.route === undefined || candidate.route === route)
      const found = rules[index]
      if (found === undefined || found.times === 'always') return found
      if (found.times > 1) rules = rules.with(index, { ...found, times: found.times - 1 })
      else rules = rules.toSpliced(index, 1)
      return found
    },
  }
}
