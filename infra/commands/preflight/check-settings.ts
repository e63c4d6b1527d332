import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual, parseEnv } from 'node:util'
import { feeSettings } from '#shared/catalog/fee-limit.ts'
import { settlementKeys } from '#shared/chain/signing/settlement-keys.ts'
import { callTimeSettings } from '#shared/operations/text/output-time.ts'
import { exposureSettings } from '#shared/payment/exposure-settings.ts'
import { payerCodeSettings } from '#shared/payment/payer-code-settings.ts'
import { settlementContractSettings } from '#shared/payment/settlement-contract-settings.ts'
import { type ApiConfig, readConfig as readApiConfig } from '../../../api/config.ts'
import { readConfig as readWorkerConfig, type WorkerConfig } from '../../../workers/config.ts'
import { UsageError } from '../command-line.ts'
import { type Check, failed, judged, passed, skipped } from './check.ts'
import type { PreflightOptions } from './options.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export interface Settings {
  readonly api: ApiConfig | null
  readonly worker: WorkerConfig | null
}

/** Returns the environment with the settings of the files below it. Throws `UsageError`. */
export async function readEnvironment(files: readonly string[], environment: Environment): Promise<Environment> {
  const settings: Record<string, string | undefined> = {}
  for (const file of files) {
    const text = await readFile(file, 'utf8').catch(() => {
      throw new UsageError(`the settings in ${file} cannot be read`)
    })
    Object.assign(settings, parseEnv(text))
  }
  return { ...settings, ...environment }
}

/** Reads the settings of the roles, and compares those that must agree between API and workers. */
export function checkSettings(
  { roles }: Pick<PreflightOptions, 'roles'>,
  environments: Readonly<Record<'api' | 'worker', Environment>>,
): { readonly settings: Settings; readonly checks: readonly Check[] } {
  const api = roles.has('api') ? attempt('API settings', () => readApiConfig({ ...environments.api })) : null
  const worker = roles.has('worker')
    ? attempt('worker settings', () => readWorkerConfig({ ...environments.worker }))
    : null
  const settings = { api: api?.config ?? null, worker: worker?.config ?? null }
  const allowances = settings.api && describeAllowances(settings.api)
  const checks = [api?.check, worker?.check, allowances].filter((check) => check !== undefined && check !== null)
  return { settings, checks: [...checks, ...checkAgreement(settings)] }
}

function attempt<Config>(name: string, read: () => Config): { readonly config: Config | null; readonly check: Check } {
  try {
    return { config: read(), check: passed(name, 'complete') }
  } catch (error) {
    return { config: null, check: failed(name, error instanceof Error ? error.message : String(error)) }
  }
}

/** Says how wallets without an allowance pay. */
function describeAllowances({ SETTLEMENT_CONTRACT: contract }: ApiConfig): Check {
  const name = 'allowances'
  if (contract !== undefined)
    return passed(name, 'permits are stored, and SETTLEMENT_CONTRACT brings them with a charge')
  return skipped(
    name,
    'without SETTLEMENT_CONTRACT a wallet without an allowance pays one call after another, each with a permit',
  )
}

/** What both decide by, or where they meet: a difference strands calls, or charges them otherwise than they were quoted. */
const SHARED = [
  'PUBLIC_BASE_URL',
  'FACILITATOR_URL',
  'QUEUE_URL',
  'QUEUE_PREFIX',
  'OBJECT_STORE_DIRECTORY',
  'S3_BUCKET',
  ...keysOf(callTimeSettings),
  ...keysOf(exposureSettings),
  ...keysOf(feeSettings),
  ...keysOf(payerCodeSettings),
  ...keysOf(settlementContractSettings),
] as const

function keysOf<Shape extends object>(settings: Shape): readonly (keyof Shape)[] {
  return Object.keys(settings) as (keyof Shape)[]
}

function checkAgreement({ api, worker }: Settings): readonly Check[] {
  if (!api || !worker) return []
  const problems: string[] = []
  const { protocol, hostname } = new URL(api.PUBLIC_BASE_URL)
  if (protocol !== 'https:' && hostname !== '127.0.0.1' && hostname !== 'localhost')
    problems.push('PUBLIC_BASE_URL must be an https:// URL')
  if (api.RECEIPT_SECRETS[0]?.id !== worker.RECEIPT_SECRET_ID)
    problems.push('RECEIPT_SECRET_ID must be the id of the first of RECEIPT_SECRETS')
  for (const name of SHARED)
    if (!isDeepStrictEqual(api[name], worker[name])) problems.push(`${name} must be the same for API and workers`)
  return [
    judged('agreement', problems, 'API and worker settings agree'),
    protocol === 'https:' && api.TRUSTED_PROXIES === undefined
      ? skipped('proxies', 'TRUSTED_PROXIES is not set: behind a proxy all callers share one client’s limits')
      : passed('proxies', api.TRUSTED_PROXIES?.join(', ') ?? 'none'),
    checkFacilitators(api, worker.SETTLEMENT_PRIVATE_KEYS),
  ]
}

/**
 * A payer signs for an address of FACILITATOR_ADDRESSES; without its key nobody can settle that payment. Accepted addresses
 * without a key must be settlement contracts (`checkSettlementContracts`).
 */
function checkFacilitators({ PAY_TO: payTo, ...api }: ApiConfig, keys: WorkerConfig['SETTLEMENT_PRIVATE_KEYS']): Check {
  const name = 'settlement keys'
  if (!keys) return skipped(name, 'settled elsewhere: SETTLEMENT_PRIVATE_KEYS is not set')
  const owned: readonly string[] = settlementKeys(keys).facilitators
  const offered: readonly string[] = api.FACILITATOR_ADDRESSES ?? []
  const named: readonly string[] = [...offered, ...(api.ACCEPTED_FACILITATOR_ADDRESSES ?? [])]
  const withoutKey = offered.filter((address) => !owned.includes(address))
  const unused = owned.filter((address) => !named.includes(address))
  return judged(
    name,
    [
      ...withoutKey.map(
        (address) => `FACILITATOR_ADDRESSES has ${address}, whose key is not in SETTLEMENT_PRIVATE_KEYS`,
      ),
      ...unused.map(
        (address) => `the key of ${address} is neither in FACILITATOR_ADDRESSES nor in ACCEPTED_FACILITATOR_ADDRESSES`,
      ),
      ...(payTo.some((address) => address === api.SETTLEMENT_CONTRACT)
        ? ['PAY_TO is SETTLEMENT_CONTRACT, which can never pay out what it receives']
        : []),
      ...(payTo.some((address) => owned.includes(address))
        ? ['PAY_TO is a settlement key; revenue should go to a key that is kept offline']
        : []),
    ],
    owned.join(', '),
  )
}
