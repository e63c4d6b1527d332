import { z } from 'zod'
import type { ProviderPorts } from './deployment.ts'
import type { SendHttp } from './http.ts'

interface Connection {
  /** Origin, with a path if the API is mounted below one; with the version for OpenAI-compatible servers. */
  readonly baseUrl: string
  /** The vendor's model name. */
  readonly upstreamModel: string
  readonly http: SendHttp
}

export type KeyedConnection = Connection & { readonly apiKey: string }
/** The key is absent for a self-hosted server that needs none. */
export type OpenConnection = Connection & { readonly apiKey?: string | undefined }

/**
 * A vendor's way of serving deployments. `ports` throws a ZodError for `options` of the deployments file that the
 * adapter does not support.
 */
export type Adapter =
  | { readonly needsKey: true; ports(connection: KeyedConnection, options: unknown): ProviderPorts }
  | { readonly needsKey: false; ports(connection: OpenConnection, options: unknown): ProviderPorts }

/** The options of adapters that have none. */
export const noOptionsSchema = z.strictObject({})

/** Returns the URL of a path below a base URL. */
export function urlBelow(baseUrl: string, path: string): string {
  return `${baseUrl.replace(/\/+$/, '')}${path}`
}

/**
 * Returns the URL of a vendor's endpoint. Throws when the base URL or the key is unusable, since no call could ever
 * succeed.
 */
export function callUrl(vendor: string, { baseUrl, apiKey }: KeyedConnection, path: string): string {
  const url = urlBelow(baseUrl, path)
  if (!URL.canParse(url)) throw new Error(`The ${vendor} base URL is not a URL`)
  // Checked here because `fetch` quotes an invalid header value in its message.
  if (!/^[\x21-\x7e]+$/.test(apiKey)) throw new Error(`The ${vendor} key must be visible ASCII characters`)
  return url
}
