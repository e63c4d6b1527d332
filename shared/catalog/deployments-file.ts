import { z } from 'zod'
import { ADAPTER_NAMES } from './adapter-names.ts'
import type { Carriers } from './catalog.ts'
import { vendorPricesSchema } from './vendor-cost.ts'

const positiveInteger = z.int().min(1)

const positiveDollars = z
  .string()
  .regex(/^\d{1,9}(\.\d{1,6})?$/, { error: 'must be decimal dollars with at most six decimals' })
  .refine((dollars) => Number(dollars) > 0, { error: 'must be more than 0' })

const unique = (names: readonly string[]) => new Set(names).size === names.length

const deploymentSchema = z.strictObject({
  /** For logs, metrics and the attempts' rows; never exposed to callers. */
  name: z.string().regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, 'lower-case letters, digits, dots, dashes and underscores'),
  adapter: z.enum(ADAPTER_NAMES),
  base_url: z.url({ protocol: /^https?$/, error: 'an http or https URL' }),
  /** The name of the environment variable with the key. The key itself is never in this file. */
  api_key_env: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]*$/, 'the name of an environment variable, in capitals')
    .optional(),
  upstream_model: z.string().min(1),
  /** Public model ids. */
  serves: z.array(z.string().min(1)).min(1).refine(unique, 'a model is listed twice'),
  /** The lowest is tried first. */
  priority: z.int().min(0).default(0),
  /** Relative share of the calls among the deployments of one priority. */
  weight: positiveInteger.default(1),
  /** Concurrent calls, for each worker process. */
  max_concurrency: positiveInteger.optional(),
  /** Calls started in any 60 seconds, for each worker process. */
  requests_per_minute: positiveInteger.optional(),
  /** For one whole call, at most the worker's PROVIDER_TIMEOUT_SECONDS; a long answer gets more time. */
  timeout_seconds: z.number().positive().optional(),
  /** Public voice alias → the upstream's voice id. Without it the upstream is called with the public aliases. */
  voices: z
    .record(
      z.string().min(1),
      z
        .string()
        .min(1)
        .refine((id) => !/^replace-with-/i.test(id), {
          error: 'is the sample of the example file; enter the id of a voice of your account, or remove the alias',
        }),
    )
    .optional(),
  /**
   * Whether the worker looks the model up at its vendor, at start and daily; the default. `false` for a server that
   * lists no models, or others than it serves.
   */
  look_up_model: z.boolean().optional(),
  /** Whose invoice has its calls, for budgets; by default the host of `base_url`. */
  vendor: z.string().min(1).max(200).optional(),
  /** What the vendor bills for it. Without it nothing can say what a call earns. */
  prices: vendorPricesSchema.optional(),
  /** Options of the adapter. */
  options: z.record(z.string(), z.json()).optional(),
})

/** Returns the vendor of a deployment: the host of its `base_url`, unless it names another. */
export function vendorOf({
  vendor,
  base_url,
}: {
  readonly vendor?: string | undefined
  readonly base_url: string
}): string {
  return vendor ?? new URL(base_url).host
}

const deploymentsFileSchema = z
  .strictObject({
    deployments: z
      .array(deploymentSchema)
      .refine((deployments) => unique(deployments.map(({ name }) => name)), 'a deployment name is used twice'),
    /** What may be spent at a vendor in a day (UTC); its deployments are drained beyond it. */
    vendor_budgets: z.record(z.string(), z.strictObject({ usd_per_day: positiveDollars })).optional(),
  })
  .check(({ value: { deployments, vendor_budgets = {} }, issues }) => {
    for (const vendor of Object.keys(vendor_budgets)) {
      const own = deployments.filter((entry) => vendorOf(entry) === vendor)
      const unpriced = own.find(({ prices }) => prices === undefined)
      const message =
        own.length === 0
          ? 'no deployment has this vendor, or this host in its base_url'
          : unpriced && `${unpriced.name} needs "prices", or nobody knows what is spent`
      if (message) issues.push({ code: 'custom', path: ['vendor_budgets', vendor], message, input: undefined })
    }
  })

/** The private file that maps upstreams to the public models they serve. Contains no secret. */
export type DeploymentsFile = z.infer<typeof deploymentsFileSchema>
export type DeploymentEntry = DeploymentsFile['deployments'][number]

/** The file as written, without defaults. */
export type DeploymentsFileInput = z.input<typeof deploymentsFileSchema>

/** Parses the file's text. Throws an error that names every invalid field and quotes no value. */
export function parseDeploymentsFile(text: string): DeploymentsFile {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    // The parser's message quotes the text, which may contain a key by mistake.
    throw new Error('The deployments file is not valid JSON')
  }
  return parseDeployments(json)
}

/** Does the same with the file's content. */
export function parseDeployments(content: unknown): DeploymentsFile {
  const parsed = deploymentsFileSchema.safeParse(content)
  if (!parsed.success) throw new Error(`The deployments file is not valid:\n${z.prettifyError(parsed.error)}`)
  return parsed.data
}

/** What deployments serve: the public models, and for each of them the voices, or `all` when one takes any alias. */
export type ServedModels = ReadonlyMap<string, ReadonlySet<string> | 'all'>

/** Returns the public models that at least one deployment serves, with their voices. Needs no key. */
export function servedModels({ deployments }: DeploymentsFile): ServedModels {
  const ids = new Set(deployments.flatMap(({ serves }) => serves))
  return new Map([...ids].map((id) => [id, voicesOf(deployments.filter(({ serves }) => serves.includes(id)))]))
}

/**
 * Returns the output limit of models whose every deployment has one (the option `maximum_output_tokens`): the highest
 * of them.
 */
export function servedOutputTokens({ deployments }: DeploymentsFile): ReadonlyMap<string, number> {
  const ids = new Set(deployments.flatMap(({ serves }) => serves))
  return new Map(
    [...ids].flatMap((id): [string, number][] => {
      const limits = deployments.filter(({ serves }) => serves.includes(id)).map(outputTokensOf)
      return limits.includes(null) ? [] : [[id, Math.max(...limits.map(Number))]]
    }),
  )
}

/** Returns the deployments of each model, as far as they decide what a request may ask for. */
export function carriersOf({ deployments }: DeploymentsFile): Carriers {
  const ids = new Set(deployments.flatMap(({ serves }) => serves))
  return Object.fromEntries(
    [...ids].map((id) => [
      id,
      deployments
        .filter(({ serves }) => serves.includes(id))
        .map(({ adapter, upstream_model, options = {} }) => ({ adapter, upstreamModel: upstream_model, options })),
    ]),
  )
}

function outputTokensOf({ options }: DeploymentEntry): number | null {
  const limit = options?.['maximum_output_tokens']
  return typeof limit === 'number' ? limit : null
}

function voicesOf(deployments: readonly DeploymentEntry[]): ReadonlySet<string> | 'all' {
  if (deployments.some(({ voices }) => voices === undefined)) return 'all'
  return new Set(deployments.flatMap(({ voices = {} }) => Object.keys(voices)))
}
