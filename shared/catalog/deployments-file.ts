import { z } from 'zod'

/** The adapters that a deployment can name; the workers' registry has one entry for each. */
const adapterNames = ['gemini', 'openai-compatible', 'elevenlabs', 'anthropic'] as const

export type AdapterName = (typeof adapterNames)[number]

const positiveInteger = z.int().min(1)

const unique = (names: readonly string[]) => new Set(names).size === names.length

const deploymentSchema = z.strictObject({
  /** For logs, metrics and the attempts' rows; never told to callers. */
  name: z.string().regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, 'lower-case letters, digits, dots, dashes and underscores'),
  adapter: z.enum(adapterNames),
  base_url: z.url({ protocol: /^https?$/, error: 'an http or https URL' }),
  /** The name of the environment variable that holds the key. The key itself never stands in this file. */
  api_key_env: z
    .string()
    .regex(/^[A-Z][A-Z0-9_]*$/, 'the name of an environment variable, in capitals')
    .optional(),
  upstream_model: z.string().min(1),
  /** Public model ids. */
  serves: z.array(z.string().min(1)).min(1).refine(unique, 'a model is listed twice'),
  /** The lowest is tried first. */
  priority: z.int().min(0).default(0),
  /** Share of the calls among the deployments of one priority. */
  weight: positiveInteger.default(1),
  /** Calls at the same time, of one worker process. */
  max_concurrency: positiveInteger.optional(),
  /** Calls begun in any 60 seconds, of one worker process. */
  requests_per_minute: positiveInteger.optional(),
  /** For one whole call; at most the worker's own limit counts. */
  timeout_seconds: z.number().positive().optional(),
  /** Public voice alias → the upstream's voice id. */
  voices: z.record(z.string().min(1), z.string().min(1)).optional(),
  /** Peculiarities of the server, as its adapter knows them. */
  options: z.record(z.string(), z.json()).optional(),
})

const deploymentsFileSchema = z.strictObject({
  deployments: z
    .array(deploymentSchema)
    .refine((deployments) => unique(deployments.map(({ name }) => name)), 'a deployment name is used twice'),
})

/** The private file that says which upstreams serve which public models. Holds no secret. */
export type DeploymentsFile = z.infer<typeof deploymentsFileSchema>
export type DeploymentEntry = DeploymentsFile['deployments'][number]

/** What one writes: defaults may be left out. */
export type DeploymentsFileInput = z.input<typeof deploymentsFileSchema>

/** Reads the file's text. Throws an error that names every wrong field and quotes no value. */
export function parseDeploymentsFile(text: string): DeploymentsFile {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    // The parser's message quotes the text, and someone may have put a key there.
    throw new Error('The deployments file is not JSON')
  }
  const parsed = deploymentsFileSchema.safeParse(json)
  if (!parsed.success) throw new Error(`The deployments file is not valid:\n${z.prettifyError(parsed.error)}`)
  return parsed.data
}

/** The public models that at least one deployment serves. Needs no key. */
export function servedModels(file: DeploymentsFile): ReadonlySet<string> {
  return new Set(file.deployments.flatMap(({ serves }) => serves))
}
