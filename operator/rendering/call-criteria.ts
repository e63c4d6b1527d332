import { z } from 'zod'
import { JOB_STATES } from '#shared/jobs/job.ts'
import type { CallCriteria } from '#shared/ledger/console/select-calls.ts'
import { atomicFromDollars } from '#shared/money/atomic-amount.ts'

/** The address of a payer, in lower case. */
export const ADDRESS = /^0x[0-9a-f]{40}$/

/** An input that was left empty sends an empty text. */
const given = <Schema extends z.ZodType>(schema: Schema) =>
  z.preprocess((value) => (value === '' ? undefined : value), schema.optional())
/** The states by which calls are selected: those of a job, and two that comprise several. */
export const CALL_STATES = ['open', 'uncharged', ...JOB_STATES] as const
const name = given(z.string().trim().max(200))

/** The parameters of a query that say which calls are meant, beside the days. */
export const callParameters = {
  /** Which moment the days are about: that of the acceptance, unless it is that of the end. */
  by: given(z.enum(['ended'])),
  state: given(z.enum(CALL_STATES)),
  code: name,
  model: name,
  deployment: name,
  payer: given(z.string().trim().toLowerCase().regex(ADDRESS)),
  /** USDC. */
  at_least: given(z.string().regex(/^\d{1,9}(\.\d{1,6})?$/)),
}

type Lenient<Shape extends Record<string, z.ZodType>> = { readonly [Name in keyof Shape]: z.ZodCatch<Shape[Name]> }

/** The same; what is not readable is left out. */
export const lenientCallParameters = Object.fromEntries(
  Object.entries<z.ZodType>(callParameters).map(([parameter, schema]) => [parameter, schema.catch(undefined)]),
) as unknown as Lenient<typeof callParameters>

const parametersSchema = z.object(callParameters)

/** Returns what the parameters mean. */
export function criteriaOf({ at_least, ...criteria }: z.infer<typeof parametersSchema>): CallCriteria {
  return at_least === undefined ? criteria : { ...criteria, atLeast: atomicFromDollars(at_least) }
}
