import { z } from 'zod'

const positiveInteger = z.int().positive()

const rule = {
  /** The path that the rule applies to; every vendor route by default. */
  route: z.string().startsWith('/').optional(),
  /** The number of calls that the rule applies to; `always` keeps it. */
  times: z.union([positiveInteger, z.literal('always')]).default(1),
  /**
   * Text that the body of a call must contain; such a rule applies after any without it, when the body has been read.
   */
  containing: z.string().min(1).optional(),
  /** Delay after the request was read. */
  delayMs: z.int().nonnegative().default(0),
}

/** One fault rule as sent to `PUT /_simulator/faults`. */
const faultRule = z.discriminatedUnion('fault', [
  /** Answers correctly; useful with `delayMs`, or to let calls pass before the next rule. */
  z.strictObject({ ...rule, fault: z.literal('none') }),
  /** Answers with this status and body. A status of 500 or more counts as started work. */
  z.strictObject({
    ...rule,
    fault: z.literal('status'),
    status: z.int().min(200).max(599),
    body: z.unknown().optional(),
    headers: z.record(z.string(), z.string()).default({}),
  }),
  /** Starts the work and never answers. */
  z.strictObject({ ...rule, fault: z.literal('hang') }),
  /** Resets the connection after the headers have arrived. */
  z.strictObject({ ...rule, fault: z.literal('resetBeforeRead') }),
  /** Reads the request, does the work, then resets the connection. */
  z.strictObject({ ...rule, fault: z.literal('resetAfterRead') }),
  /** Sends the headers and half of the body, then resets the connection. */
  z.strictObject({ ...rule, fault: z.literal('resetMidBody') }),
  /** Sends a complete HTTP answer with truncated JSON. */
  z.strictObject({ ...rule, fault: z.literal('truncatedJson') }),
  /** Answers with a normal finish, but without output: no text, transcript, image or audio. */
  z.strictObject({ ...rule, fault: z.literal('emptyText') }),
  /** Sends an answer padded to this many bytes. */
  z.strictObject({ ...rule, fault: z.literal('hugeBody'), bytes: positiveInteger.default(64 * 1024 * 1024) }),
  /** Sends the correct answer in pieces, `everyMs` apart. */
  z.strictObject({
    ...rule,
    fault: z.literal('slowBody'),
    pieces: positiveInteger.default(20),
    everyMs: positiveInteger.default(500),
  }),
  /**
   * Sends the first events of a streamed answer. Then it sends nothing more (`stall`), resets the connection, ends the answer,
   * or ends it with an error event. A whole answer is sent correctly.
   */
  z.strictObject({
    ...rule,
    fault: z.literal('midStream'),
    afterEvents: z.int().nonnegative(),
    ending: z.enum(['stall', 'reset', 'end', 'error']),
    error: z.record(z.string(), z.unknown()).default({}),
  }),
  /** Sends a streamed answer without token counts. */
  z.strictObject({ ...rule, fault: z.literal('noUsage') }),
])

export type FaultRule = z.infer<typeof faultRule>
export type FaultRuleInput = z.input<typeof faultRule>

export type FaultQueue = ReturnType<typeof createFaultQueue>

/** Creates a queue whose rules apply to calls in order of arrival, so a test knows which call meets which fault. */
export function createFaultQueue() {
  let rules: FaultRule[] = []
  return {
    get rules(): readonly FaultRule[] {
      return rules
    },
    /** Replaces all rules. Throws a ZodError when one is not valid. */
    replace(next: unknown): void {
      rules = z.array(faultRule).parse(next)
    },
    /**
     * Takes the first rule for this route and counts down its uses; undefined when no rule is left. Without `body`, only
     * rules that apply to any body; with it, only those whose text it contains.
     */
    take(route: string, body?: Buffer): FaultRule | undefined {
      const index = rules.findIndex(
        ({ route: only, containing }) =>
          (only === undefined || only === route) &&
          (body === undefined ? containing === undefined : containing !== undefined && body.includes(containing)),
      )
      const found = rules[index]
      if (found === undefined || found.times === 'always') return found
      if (found.times > 1) rules = rules.with(index, { ...found, times: found.times - 1 })
      else rules = rules.toSpliced(index, 1)
      return found
    },
  }
}
