import type { DeploymentEntry, DeploymentsFile } from './deployments-file.ts'
import { SETTING_NAMES } from './setting-names.ts'

/** Stands for deployments without a key; names of variables are in capitals. */
const NO_KEY = 'none'

/**
 * The origins that each key may be sent to, by the name of its environment variable. Under `none`: what may be called
 * over `http:` without a key.
 */
export type ProviderKeys = Readonly<Record<string, readonly string[]>>

/** Where a deployment sends which key. */
export interface Destination {
  /** The name of the environment variable, or `none`. */
  readonly key: string
  readonly origin: string
}

function destinationOf({
  api_key_env: key = NO_KEY,
  base_url,
}: Pick<DeploymentEntry, 'api_key_env' | 'base_url'>): Destination {
  return { key, origin: new URL(base_url).origin }
}

/** Returns each destination of a list of deployments once. */
export function destinationsOf({ deployments }: DeploymentsFile): readonly Destination[] {
  const byText = new Map(deployments.map(destinationOf).map((one) => [describeDestination(one), one]))
  return [...byText].sort(([one], [other]) => (one < other ? -1 : 1)).map(([, destination]) => destination)
}

/** Describes a destination as operators read it. */
export function describeDestination({ key, origin }: Destination): string {
  return key === NO_KEY ? `no key goes to ${origin}` : `key ${key} goes to ${origin}`
}

/** Returns what a deployments file sends where: what a worker without PROVIDER_KEYS allows. */
export function providerKeysOf(file: DeploymentsFile): ProviderKeys {
  return groupByKey(destinationsOf(file))
}

/**
 * Parses PROVIDER_KEYS: `NAME=origin`, comma-separated, with a line for each origin of a key. Throws an `Error` that
 * quotes no origin, since a key may stand there by mistake.
 */
export function parseProviderKeys(text: string): ProviderKeys {
  return groupByKey(
    text.split(',').map((pair, index) => {
      const [, key = '', given = ''] = /^\s*([A-Z][A-Z0-9_]*|none)=(\S+)\s*$/.exec(pair) ?? []
      if (key === '') throw new Error(`entry ${index + 1} must be NAME=https://host, or none=http://host without a key`)
      const url = URL.canParse(given) ? new URL(given) : null
      const isOrigin = url !== null && /^https?:$/.test(url.protocol) && [url.origin, `${url.origin}/`].includes(given)
      if (!isOrigin) throw new Error(`entry ${index + 1}: ${key} needs an origin such as https://host, without a path`)
      if (isOwnSetting(key)) throw new Error(ownSetting(key))
      return { key, origin: url.origin }
    }),
  )
}

/** Throws an `Error` for a deployment that names a setting of farebox as its key, such as DATABASE_URL. */
export function refuseOwnSettings({ deployments }: DeploymentsFile): void {
  for (const entry of deployments)
    if (isOwnSetting(destinationOf(entry).key))
      throw new Error(`deployment ${entry.name}: ${ownSetting(destinationOf(entry).key)}`)
}

function isOwnSetting(key: string): boolean {
  return SETTING_NAMES.includes(key)
}

function ownSetting(key: string): string {
  return `${key} is a setting of farebox, which no vendor may get`
}

/** Returns why a worker that allows `allowed` may not call a deployment; `null` when it may. */
export function whyNotAllowed(entry: DeploymentEntry, allowed: ProviderKeys): string | null {
  const { key, origin } = destinationOf(entry)
  if (isOwnSetting(key)) return ownSetting(key)
  if (key === NO_KEY ? isOpen(origin, allowed) : allowed[key]?.includes(origin)) return null
  const what = key === NO_KEY ? `${origin} may not be called over http` : `${key} may not be sent to ${origin}`
  return `${what}: neither PROVIDER_KEYS nor, without it, DEPLOYMENTS_FILE of the worker has this origin`
}

const LOOPBACK = /^http:\/\/(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/

/** Returns whether an origin may be called without a key: over TLS, on this machine, or where the worker's own settings say so. */
function isOpen(origin: string, allowed: ProviderKeys): boolean {
  return origin.startsWith('https:') || LOOPBACK.test(origin) || Object.values(allowed).flat().includes(origin)
}

function groupByKey(destinations: readonly Destination[]): ProviderKeys {
  const grouped = Map.groupBy(destinations, ({ key }) => key)
  return Object.fromEntries([...grouped].map(([key, all]) => [key, [...new Set(all.map(({ origin }) => origin))]]))
}
